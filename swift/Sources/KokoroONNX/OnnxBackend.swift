import Foundation
import Kokoro
import KokoroSteps

extension Kokoro {
    /// Opens a bundle of ONNX files with ONNX Runtime on the CPU. `threads`: of each network; 0 leaves it to ONNX Runtime.
    public init(bundle folder: URL, onnx library: OnnxLibrary, threads: Int = 2) async throws {
        try await self.init(bundle: try SpeechBundle(at: folder)) { try OnnxBackend(bundle: $0, library: library, threads: threads) }
    }
}

/// The networks of a bundle of ONNX files (`kokoro-ane bundle --runtime onnx`), at exact length.
package struct OnnxBackend: SpeechBackend {
    package let tokenBuckets = Buckets([]), frameBuckets = Buckets([]), vocoderBuckets = Buckets([])
    package let streaming: StreamingVocoder?
    private let duration: OnnxProgram, melody: OnnxProgram, vocoder: OnnxProgram?

    /// `threads`: of each network; 0 leaves it to ONNX Runtime. Throws `unsupported` for a bundle of Core ML packages.
    package init(bundle: SpeechBundle, library: OnnxLibrary, threads: Int = 1) throws(KokoroError) {
        guard bundle.isOnnx else { throw .unsupported("the bundle holds Core ML packages: kokoro-ane bundle --runtime onnx") }
        func program(_ function: String, _ outputs: [String]) throws(KokoroError) -> OnnxProgram {
            try OnnxProgram(library, file: try bundle.network(function).file.path, outputs: outputs, threads: Int32(clamping: threads))
        }
        duration = try program("duration", ["durations", "hidden", "text"])
        melody = try program("prosody", ["f0_hz", "energy"])
        guard let lengths = try bundle.streamingLengths() else {
            (vocoder, streaming) = (try program("vocoder", ["waveform"]), nil)
            return
        }
        func part(_ name: String) throws(KokoroError) -> StreamingVocoder.Function {
            let opened = try program(name, StreamingVocoder.outputs[name] ?? [])
            return { inputs in try opened(inputs.map { ($0.name, OnnxInput($0.value)) }) }
        }
        vocoder = nil
        streaming = StreamingVocoder(lengths, decoder: try part("decoder"), utterance: try part("utterance"), window: try part("window"))
    }

    package func durations(ids: [Int32], style: [Float], speed: Float) throws -> EncodedText {
        let row = try Tensor("style", shape: [1, style.count], values: style), pace = try Tensor("speed", shape: [1], values: [speed])
        let found = try duration([("input_ids", OnnxInput(ids: ids)), ("style", OnnxInput(row)), ("speed", OnnxInput(pace))])
        return EncodedText(raw: found[0].values, hidden: found[1], text: found[2])
    }

    package func prosody(frames: Tensor, style: [Float]) throws -> Prosody {
        let row = try Tensor("style", shape: [1, style.count], values: style)
        let found = try melody([("frames", OnnxInput(frames)), ("style", OnnxInput(row))])
        return Prosody(f0Hz: found[0].values, energy: found[1].values)
    }

    package func waveform(features: Tensor, style: [Float]) throws -> [Float] {
        let row = try Tensor("style", shape: [1, style.count, 1, 1], values: style)
        return try vocoder?([("features", OnnxInput(features)), ("style", OnnxInput(row))])[0].values ?? []
    }
}
