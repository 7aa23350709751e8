import Foundation

// The declarations of Core ML that Kokoro uses, by Apple's documentation (developer.apple.com/documentation/coreml), so that a misspelt
// call fails to compile on Linux. What they do stands in RecordedModel.swift: they answer with what a bundle's test vectors recorded.

public enum MLComputeUnits: Int, Sendable {
    case cpuOnly = 0, cpuAndGPU = 1, all = 2, cpuAndNeuralEngine = 3
}

public class MLModelConfiguration: NSObject {
    public var computeUnits = MLComputeUnits.all
    public var functionName: String?
}

public enum MLMultiArrayDataType: Int, Sendable {
    case double = 0x10040, float32 = 0x10020, float16 = 0x10010, int32 = 0x20020
}

public class MLMultiArray: NSObject {
    public let shape: [NSNumber], strides: [NSNumber], dataType: MLMultiArrayDataType
    private var bytes: [UInt8]

    public init(shape: [NSNumber], dataType: MLMultiArrayDataType) throws {
        self.shape = shape
        self.dataType = dataType
        // Rows end on 64 bytes, as the Neural Engine leaves them: who ignores strides is found out.
        let width = dataType == .float16 ? 2 : 4, columns = shape.last?.intValue ?? 0
        let row = (columns * width + 63) / 64 * 64 / width
        var strides = [1], next = row
        for size in shape.dropFirst().dropLast().reversed() {
            strides.insert(next, at: 0)
            next *= size.intValue
        }
        if shape.count > 1 { strides.insert(next, at: 0) }
        self.strides = strides.map { NSNumber(value: $0) }
        let count = shape.count > 1 ? next * (shape.first?.intValue ?? 0) : row
        bytes = [UInt8](repeating: 0xFF, count: width * count)  // NaN in all of it
    }

    public func withUnsafeBytes<R>(_ body: (UnsafeRawBufferPointer) throws -> R) throws -> R { try bytes.withUnsafeBytes(body) }

    public func withUnsafeMutableBytes<R>(_ body: (UnsafeMutableRawBufferPointer, [Int]) throws -> R) throws -> R {
        let strides = strides.map(\.intValue)
        return try bytes.withUnsafeMutableBytes { try body($0, strides) }
    }
}

public class MLFeatureValue: NSObject {
    public let multiArrayValue: MLMultiArray?
    public init(multiArray value: MLMultiArray) { multiArrayValue = value }
}

public protocol MLFeatureProvider {
    var featureNames: Set<String> { get }
    func featureValue(for featureName: String) -> MLFeatureValue?
}

public class MLDictionaryFeatureProvider: NSObject, MLFeatureProvider {
    private let values: [String: MLFeatureValue]

    public init(dictionary: [String: Any]) throws { values = dictionary.compactMapValues { $0 as? MLFeatureValue } }

    public var featureNames: Set<String> { Set(values.keys) }
    public func featureValue(for featureName: String) -> MLFeatureValue? { values[featureName] }
}

public enum MLMultiArrayShapeConstraintType: Int, Sendable {
    case unspecified = 1, enumerated = 2, range = 3
}

public class MLMultiArrayShapeConstraint: NSObject {
    public let type: MLMultiArrayShapeConstraintType, enumeratedShapes: [[NSNumber]]
    init(_ shapes: [[NSNumber]]) {
        type = shapes.count > 1 ? .enumerated : .unspecified
        enumeratedShapes = shapes
    }
}

public class MLMultiArrayConstraint: NSObject {
    public let shape: [NSNumber], dataType: MLMultiArrayDataType, shapeConstraint: MLMultiArrayShapeConstraint
    init(_ shapes: [[NSNumber]], _ kind: MLMultiArrayDataType) {
        shape = shapes.first ?? []
        dataType = kind
        shapeConstraint = MLMultiArrayShapeConstraint(shapes)
    }
}

public class MLFeatureDescription: NSObject {
    public let multiArrayConstraint: MLMultiArrayConstraint?
    init(_ constraint: MLMultiArrayConstraint) { multiArrayConstraint = constraint }
}

public class MLModelDescription: NSObject {
    public let inputDescriptionsByName: [String: MLFeatureDescription]
    init(_ inputs: [String: MLMultiArrayConstraint]) { inputDescriptionsByName = inputs.mapValues { MLFeatureDescription($0) } }
}

public class MLModel: NSObject {
    public let modelDescription: MLModelDescription
    private let recorded: RecordedModel

    public init(contentsOf url: URL, configuration: MLModelConfiguration) throws {
        recorded = try RecordedModel(url, function: configuration.functionName)
        modelDescription = MLModelDescription(try recorded.inputs())
    }

    public class func load(contentsOf url: URL, configuration: MLModelConfiguration) async throws -> MLModel {
        try MLModel(contentsOf: url, configuration: configuration)
    }

    public func prediction(from input: any MLFeatureProvider) throws -> any MLFeatureProvider { try recorded.answer(input) }

    /// A folder that says where the package lies.
    public class func compileModel(at modelURL: URL) async throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).mlmodelc", isDirectory: true)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Data(modelURL.path.utf8).write(to: folder.appendingPathComponent("origin"))
        return folder
    }
}
