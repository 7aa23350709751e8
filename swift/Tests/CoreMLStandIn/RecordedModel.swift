import Foundation
import KokoroSteps
import KokoroVectors

/// A package of a bundle that answers with the bundle's test vectors: inputs that it has not seen are an error.
struct RecordedModel {
    private struct Buckets: Decodable {
        struct Encoder: Decodable { let token_buckets: [Int], buckets: [Int] }
        struct Vocoder: Decodable { let buckets: [Int], inputs: [String: Inputs] }
        struct Inputs: Decodable { let features: Lengths? }
        struct Lengths: Decodable { let frames: [Int]? }
        let encoder: [Encoder], vocoder: Vocoder
    }

    private let bundle: URL, function: String, index: VectorIndex

    /// `url`: what `compileModel` gave.
    init(_ url: URL, function: String?) throws {
        let package = URL(fileURLWithPath: try String(contentsOf: url.appendingPathComponent("origin"), encoding: .utf8))
        bundle = package.deletingLastPathComponent().deletingLastPathComponent()
        self.function = function ?? "vocoder"
        index = try VectorIndex.read(bundle.appendingPathComponent("vectors"))
    }

    /// Shapes and kinds of the inputs, as the manifest has them.
    func inputs() throws -> [String: MLMultiArrayConstraint] {
        let read = try JSONDecoder().decode(Buckets.self, from: Data(contentsOf: bundle.appendingPathComponent("manifest.json")))
        func lengths(_ lengths: [Int], _ front: [Int], _ kind: MLMultiArrayDataType) -> MLMultiArrayConstraint {
            MLMultiArrayConstraint(lengths.map { (front + [$0]).map { NSNumber(value: $0) } }, kind)
        }
        func streamed(_ function: String, _ rows: Int) -> MLMultiArrayConstraint {
            lengths((read.vocoder.inputs[function]?.features?.frames ?? []).map { $0 + 1 }, [1, rows, 1], .float16)
        }
        let stored = try utterance(0), hidden = try stored("hidden").shape[1], rows = try stored("features").shape[1]
        return switch function {
        case "duration":
            ["input_ids": lengths(read.encoder[0].token_buckets, [1], .int32), "style": lengths([128], [1], .float32), "speed": lengths([1], [], .float32)]
        case "prosody": ["frames": lengths(read.encoder[0].buckets, [1, hidden + 1, 1], .float32), "style": lengths([128], [1], .float32)]
        case "decoder": ["features": streamed("decoder", rows), "style": lengths([1], [1, 128, 1], .float16), "statistics": lengths([1], [1, Self.affines, 1], .float16)]
        case "utterance": ["features": streamed("utterance", Self.frameRows + 2641), "style_affine": lengths([1], [1, Self.affines, 1], .float16)]
        case "window": ["features": streamed("window", Self.frameRows + 2640), "affine": lengths([1], [1, Self.affines, 1], .float16)]
        default: ["features": lengths(read.vocoder.buckets.map { $0 + 1 }, [1, rows, 1], .float16), "style": lengths([1], [1, 128, 1], .float16)]
        }
    }

    private static let frameRows = 40, affines = 4  // 20 columns a frame of two channels

    /// The streaming layout's functions, of numbers that tell how they were called: the decoder gives the share of its frames that are real
    /// and two factors; the others hold each value of the spectrum's first row for five samples, times their own factor.
    private func streamed(_ given: any MLFeatureProvider) throws -> any MLFeatureProvider {
        let asked = try values(given, "features"), width = given.featureValue(for: "features")?.multiArrayValue?.shape.last?.intValue ?? 0
        func made(_ shape: [Int], _ values: [Float]) throws -> MLFeatureValue {
            let array = try MLMultiArray(shape: shape.map { NSNumber(value: $0) }, dataType: .float32), row = shape.last ?? 0
            try array.withUnsafeMutableBytes { bytes, strides in
                for (place, value) in values.enumerated() {
                    bytes.storeBytes(of: value, toByteOffset: 4 * (place / row * (shape.count > 1 ? strides[1] : 0) + place % row), as: Float.self)
                }
            }
            return MLFeatureValue(multiArray: array)
        }
        if function == "decoder" {
            let entering = (0..<Self.frameRows * (width - 1)).map { Float($0 % 8) }
            return try MLDictionaryFeatureProvider(dictionary: ["entering": made([1, 2, 1, Self.frameRows / 2 * (width - 1)], entering),
                "affine": made([1, 4, 1, 1], [0.5, 1, 2, 3]), "style_affine": made([1, 4, 1, 1], [0.25, 1, 2, 3])])
        }
        let factor = try values(given, function == "window" ? "affine" : "style_affine")[0], from = Self.frameRows * width
        return try MLDictionaryFeatureProvider(dictionary: ["waveform": made([1, 1, 1, 600 * (width - 1)], (0..<600 * (width - 1)).map { asked[from + $0 / 5] * factor })])
    }

    func answer(_ given: any MLFeatureProvider) throws -> any MLFeatureProvider {
        if ["decoder", "utterance", "window"].contains(function) { return try streamed(given) }
        let key = ["duration": "input_ids", "prosody": "frames"][function] ?? "features"
        let asked = try values(given, key)
        for number in index.utterances.indices {
            let stored = try utterance(number), seen = try stored(key)
            // The vocoder's features hold noise, the same to 149 dB: their first rows do not.
            let compared = key == "features" ? try stored("asr").shape[1] * (seen.shape.last ?? 0) : seen.values.count
            let same = zip(seen.floats, asked).prefix(compared).allSatisfy { key == "features" ? HalfFloat.value(HalfFloat.bits($0)) == $1 : $0 == $1 }
            if seen.values.count == asked.count, same { return try MLDictionaryFeatureProvider(dictionary: outputs(stored, columns: asked)) }
        }
        throw KokoroError.backend("\(function) was not recorded with this \(key)")
    }

    /// The stored outputs, with NaN from where they were cut up to the bucket's length.
    private func outputs(_ stored: StoredUtterance, columns: [Float]) throws -> [String: Any] {
        switch function {
        case "duration":
            let width = try stored("input_ids").shape[1]
            return try ["durations": widened(stored("raw"), [1], width), "hidden": widened(stored("hidden"), [1, stored("hidden").shape[1], 1], width),
                        "text": widened(stored("text"), [1, stored("text").shape[1], 1], width)]
        case "prosody":
            let width = 2 * (try stored("frames").shape[3])
            return try ["f0_hz": widened(stored("f0_hz"), [1], width), "energy": widened(stored("energy"), [1], width)]
        default: return ["waveform": try widened(stored("waveform"), [1, 1, 1], 600 * (stored("features").shape[3] - 1))]
        }
    }

    private func widened(_ tensor: NumpyFile, _ front: [Int], _ width: Int) throws -> MLFeatureValue {
        let array = try MLMultiArray(shape: (front + [width]).map { NSNumber(value: $0) }, dataType: .float32)
        let rows = front.reduce(1, *), columns = tensor.values.count / rows, floats = tensor.floats
        try array.withUnsafeMutableBytes { bytes, strides in
            let step = front.count > 1 ? strides[1] : 0
            for row in 0..<rows {
                for column in 0..<columns { bytes.storeBytes(of: floats[row * columns + column], toByteOffset: 4 * (row * step + column), as: Float.self) }
            }
        }
        return MLFeatureValue(multiArray: array)
    }

    private func values(_ given: any MLFeatureProvider, _ key: String) throws -> [Float] {
        guard let array = given.featureValue(for: key)?.multiArrayValue else { throw KokoroError.backend("no input \(key)") }
        let shape = array.shape.map(\.intValue), columns = shape.last ?? 0, step = shape.count > 2 ? array.strides[1].intValue : 0
        return try array.withUnsafeBytes { bytes in
            (0..<shape.reduce(1, *)).map { place in
                let offset = place / columns * step + place % columns
                return switch array.dataType {
                case .float16: HalfFloat.value(bytes.loadUnaligned(fromByteOffset: 2 * offset, as: UInt16.self))
                case .int32: Float(bytes.loadUnaligned(fromByteOffset: 4 * offset, as: Int32.self))
                default: bytes.loadUnaligned(fromByteOffset: 4 * offset, as: Float.self)
                }
            }
        }
    }

    private func utterance(_ number: Int) throws -> StoredUtterance {
        StoredUtterance(index.utterances[number], in: bundle.appendingPathComponent("vectors"))
    }
}
