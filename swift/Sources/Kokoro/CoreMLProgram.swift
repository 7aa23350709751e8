#if canImport(CoreML)
import CoreML
import Foundation
import KokoroSteps

/// Values that become an array of whichever kind the program declares.
struct CoreMLInput {
    let shape: [Int], values: [Float]

    func array(of kind: MLMultiArrayDataType) throws -> MLMultiArray {
        let array = try MLMultiArray(shape: shape.map { NSNumber(value: $0) }, dataType: kind)
        try array.withUnsafeMutableBytes { bytes, strides in
            for (value, offset) in zip(values, offsets(shape, strides)) {
                switch kind {
                case .float16: bytes.storeBytes(of: HalfFloat.bits(value), toByteOffset: 2 * offset, as: UInt16.self)
                case .float32: bytes.storeBytes(of: value, toByteOffset: 4 * offset, as: Float.self)
                case .int32: bytes.storeBytes(of: Int32(value), toByteOffset: 4 * offset, as: Int32.self)
                default: throw KokoroError.unsupported("an input of another kind than float16, float32 and int32")
                }
            }
        }
        return array
    }
}

extension CoreMLInput {
    init(_ tensor: Tensor) { self.init(shape: tensor.shape, values: tensor.values) }
}

/// One function of a package.
///
/// `@unchecked Sendable`: the model is used by one prediction at a time, behind the lock; nothing else touches it after `init`.
final class CoreMLProgram: @unchecked Sendable {
    private let model: MLModel, name: String, lock = NSLock()

    init(_ model: MLModel, name: String) {
        self.model = model
        self.name = name
    }

    /// Throws unless the program takes exactly these lengths of an input's last axis.
    func requireLengths(_ input: String, _ lengths: [Int]) throws(KokoroError) {
        guard let constraint = model.modelDescription.inputDescriptionsByName[input]?.multiArrayConstraint else {
            throw .badFile(name, reason: "the program has no input \(input)")
        }
        let flexible = constraint.shapeConstraint.type == .enumerated
        let shapes = flexible ? constraint.shapeConstraint.enumeratedShapes : [constraint.shape]
        guard shapes.compactMap({ $0.last?.intValue }).sorted() == lengths else {
            throw .unsupported("the compiled \(name) has lost its lengths: remove it from the cache and compile again")
        }
    }

    /// Outputs in the order of their names.
    func callAsFunction(_ inputs: [String: CoreMLInput], outputs: [String]) throws -> [Tensor] {
        lock.lock()
        defer { lock.unlock() }
        let declared = model.modelDescription.inputDescriptionsByName
        var arrays: [String: Any] = [:]
        for (input, value) in inputs {
            guard let kind = declared[input]?.multiArrayConstraint?.dataType else { throw KokoroError.badFile(name, reason: "no input \(input)") }
            arrays[input] = MLFeatureValue(multiArray: try value.array(of: kind))
        }
        let found: any MLFeatureProvider
        do { found = try model.prediction(from: MLDictionaryFeatureProvider(dictionary: arrays)) } catch {
            let entitlement = "com.apple.developer.background-tasks.continued-processing.inference"
            throw KokoroError.backend("Core ML, \(name): \(error.localizedDescription) (in the background OS 27 asks for \(entitlement))")
        }
        return try outputs.map { output in
            guard let array = found.featureValue(for: output)?.multiArrayValue else { throw KokoroError.badFile(name, reason: "no output \(output)") }
            return try tensor(output, array)
        }
    }

    /// Row by row: the Neural Engine leaves room behind rows.
    private func tensor(_ output: String, _ array: MLMultiArray) throws -> Tensor {
        let shape = array.shape.map(\.intValue), places = offsets(shape, array.strides.map(\.intValue))
        let kind = array.dataType
        let values: [Float] = try array.withUnsafeBytes { bytes in
            switch kind {
            case .float16: places.map { HalfFloat.value(bytes.loadUnaligned(fromByteOffset: 2 * $0, as: UInt16.self)) }
            case .float32: places.map { bytes.loadUnaligned(fromByteOffset: 4 * $0, as: Float.self) }
            default: throw KokoroError.unsupported("\(output) is neither float16 nor float32")
            }
        }
        return try Tensor(output, shape: shape, values: values)
    }
}

/// Offsets of an array's elements in row-major order, wherever its rows begin.
func offsets(_ shape: [Int], _ strides: [Int]) -> [Int] {
    zip(shape, strides).reduce([0]) { places, axis in places.flatMap { place in (0..<axis.0).map { place + $0 * axis.1 } } }
}
#endif
