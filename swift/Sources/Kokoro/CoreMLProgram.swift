#if canImport(CoreML)
import CoreML
import Foundation
import KokoroSteps

/// Values that become an array of whichever kind the program declares.
struct CoreMLInput {
    let shape: [Int], values: [Float]

    func array(of kind: MLMultiArrayDataType) throws -> MLMultiArray {
        let array = try MLMultiArray(shape: shape.map { NSNumber(value: $0) }, dataType: kind), columns = shape.last ?? 0
        try array.withUnsafeMutableBytes { bytes, strides in
            let step = strides.last ?? 1
            for (row, start) in rowStarts(shape, strides).enumerated() {
                for column in 0..<columns {
                    let value = values[row * columns + column], place = start + column * step
                    switch kind {
                    case .float16: bytes.storeBytes(of: HalfFloat.bits(value), toByteOffset: 2 * place, as: UInt16.self)
                    case .float32: bytes.storeBytes(of: value, toByteOffset: 4 * place, as: Float.self)
                    case .int32: bytes.storeBytes(of: Int32(value), toByteOffset: 4 * place, as: Int32.self)
                    default: throw KokoroError.unsupported("an input of another kind than float16, float32 and int32")
                    }
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

    /// Whether the program takes exactly these lengths of an input's last axis. Throws `badFile` where it has no such input.
    func takes(_ input: String, _ lengths: [Int]) throws(KokoroError) -> Bool {
        guard let constraint = model.modelDescription.inputDescriptionsByName[input]?.multiArrayConstraint else {
            throw .badFile(name, reason: "the program has no input \(input)")
        }
        let flexible = constraint.shapeConstraint.type == .enumerated
        let shapes = flexible ? constraint.shapeConstraint.enumeratedShapes : [constraint.shape]
        return shapes.compactMap { $0.last?.intValue }.sorted() == lengths
    }

    /// Outputs in the order of their names.
    func callAsFunction(_ inputs: [String: CoreMLInput], outputs: [String]) throws(KokoroError) -> [Tensor] {
        lock.lock()
        defer { lock.unlock() }
        do {
            let declared = model.modelDescription.inputDescriptionsByName
            var arrays: [String: Any] = [:]
            for (input, value) in inputs {
                guard let kind = declared[input]?.multiArrayConstraint?.dataType else { throw KokoroError.badFile(name, reason: "no input \(input)") }
                arrays[input] = MLFeatureValue(multiArray: try value.array(of: kind))
            }
            let answer = try model.prediction(from: MLDictionaryFeatureProvider(dictionary: arrays))
            return try outputs.map { output in
                guard let array = answer.featureValue(for: output)?.multiArrayValue else { throw KokoroError.badFile(name, reason: "no output \(output)") }
                return try tensor(output, array)
            }
        } catch { throw CoreMLBackend.failure(name, error) }
    }

    /// Row by row: the Neural Engine leaves room behind rows.
    private func tensor(_ output: String, _ array: MLMultiArray) throws -> Tensor {
        let shape = array.shape.map(\.intValue), strides = array.strides.map(\.intValue), columns = shape.last ?? 0, step = strides.last ?? 1
        let kind = array.dataType
        guard kind == .float16 || kind == .float32 else { throw KokoroError.unsupported("\(output) is neither float16 nor float32") }
        var values: [Float] = []
        values.reserveCapacity(shape.reduce(1, *))
        try array.withUnsafeBytes { bytes in
            for start in rowStarts(shape, strides) {
                for place in Swift.stride(from: start, to: start + columns * step, by: step) {
                    values.append(
                        kind == .float32 ? bytes.loadUnaligned(fromByteOffset: 4 * place, as: Float.self)
                            : HalfFloat.value(bytes.loadUnaligned(fromByteOffset: 2 * place, as: UInt16.self)))
                }
            }
        }
        return try Tensor(output, shape: shape, values: values)
    }
}

/// Where the rows of an array begin, in row-major order.
private func rowStarts(_ shape: [Int], _ strides: [Int]) -> [Int] {
    zip(shape, strides).dropLast().reduce([0]) { places, axis in places.flatMap { place in (0..<axis.0).map { place + $0 * axis.1 } } }
}
#endif
