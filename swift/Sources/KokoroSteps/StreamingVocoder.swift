/// Frames that the functions of the streaming layout take. `longest`: of an utterance that is computed as a whole; `windows` rise.
package struct StreamingLengths: Equatable, Sendable {
    package let decoder: Buckets, utterance: Buckets, longest: Int, windows: [Int]

    /// Throws `badFile` for windows that hold nothing but what their edges spoil, or that an utterance cut into them may not fill.
    package init(decoder: Buckets, utterance: Buckets, longest: Int, windows: [Int]) throws(KokoroError) {
        guard let least = windows.first, least > 2 * StreamingVocoder.halo, windows == windows.sorted(), least <= longest
        else { throw .badFile("manifest.json", reason: "windows of \(windows) frames for utterances above \(longest)") }
        (self.decoder, self.utterance, self.longest, self.windows) = (decoder, utterance, longest, windows)
    }
}

/// The vocoder in the streaming layout: three functions, whoever computes them.
///
/// The decoder computes all but the last stage. That of a short utterance is computed as a whole and measures its own statistics; the decoder
/// tells those of a longer one, which is computed in windows full of real frames. Any cut gives the same samples.
package struct StreamingVocoder: Sendable {
    /// Inputs by name to outputs: of `decoder` entering, affine and style_affine, of the others the waveform.
    package typealias Function = @Sendable (_ inputs: [(name: String, value: Tensor)]) throws -> [Tensor]
    /// Frames at an inner edge of a window that are computed twice.
    package static let halo = 2
    package static let outputs = ["decoder": ["entering", "affine", "style_affine"], "utterance": ["waveform"], "window": ["waveform"]]
    private let lengths: StreamingLengths, decoder: Function, utterance: Function, window: Function

    package init(_ lengths: StreamingLengths, decoder: @escaping Function, utterance: @escaping Function, window: @escaping Function) {
        (self.lengths, self.decoder, self.utterance, self.window) = (lengths, decoder, utterance, window)
    }

    /// `frames` from `start` on are computed, those from `begin` to `end` are kept.
    struct Window: Equatable { let start: Int, frames: Int, begin: Int, end: Int }

    /// As `windows` in vocoder/streaming/streaming_package.py. `early`: each length in turn before the longest is used throughout.
    static func cut(_ frames: Int, _ sizes: [Int], early: Bool) -> [Window] {
        let sizes = sizes.filter { $0 <= frames }
        var found: [Window] = [], begin = 0, used = early ? 0 : sizes.count - 1
        while begin < frames {
            let edge = begin > 0 ? halo : 0, last = sizes[...used].first { $0 - edge >= frames - begin }, size = last ?? sizes[used]
            let start = last == nil ? begin - edge : frames - size, end = last == nil ? start + size - halo : frames
            found.append(Window(start: start, frames: size, begin: begin, end: end))
            (begin, used) = (end, min(used + 1, sizes.count - 1))
        }
        return found
    }

    /// The samples of one utterance in order, computed as they are asked for; [600F] together.
    package struct Pieces: Sendable {
        let vocoder: StreamingVocoder, features: VocoderFeatures, decoded: [Tensor], isWhole: Bool
        var left: ArraySlice<Window>

        package mutating func next() throws -> [Float]? {
            guard let window = left.popFirst() else { return nil }
            let frames = window.frames, from = window.start
            var parts = [
                PackedPart(decoded[0].values, row: decoded[0].columns, from: Contract.stepsPerFrame * from, count: Contract.stepsPerFrame * frames, rate: Contract.stepsPerFrame),
                PackedPart(features.spectrum, row: features.spectrumColumns, from: Contract.columnsPerFrame * from, count: Contract.columnsPerFrame * frames + 1, rate: Contract.columnsPerFrame),
            ]
            if isWhole { parts.append(PackedPart([Float](repeating: 1, count: frames), row: frames, rate: 1)) }
            let bucket = isWhole ? try vocoder.lengths.utterance.smallest(holding: frames, unit: "frames") : frames
            let given = ("features", try packed(parts, bucket: bucket))
            let found = isWhole ? try vocoder.utterance([given, ("style_affine", decoded[2])]) : try vocoder.window([given, ("affine", decoded[1])])
            let low = Contract.frameSamples * (window.begin - from), high = Contract.frameSamples * (window.end - from)
            guard found[0].values.count >= high else { throw KokoroError.wrongSize("waveform", found: found[0].values.count, wanted: high) }
            let samples = Array(found[0].values[low..<high])
            try samples.requireFinite("waveform")
            return samples
        }
    }

    package func pieces(_ features: VocoderFeatures, style: VoiceStyle, early: Bool = true) throws -> Pieces {
        let frames = features.asr.columns, isWhole = frames <= lengths.longest
        let given = try features.packed(bucket: lengths.decoder.smallest(holding: frames, unit: "frames"), phases: 6)
        func column(_ name: String, _ values: [Float]) throws -> (String, Tensor) { (name, try Tensor(name, shape: [1, values.count, 1, 1], values: values)) }
        let decoded = try decoder([("features", given), try column("style", style.decoder), try column("statistics", style.statistics)])
        let cut = isWhole ? [Window(start: 0, frames: frames, begin: 0, end: frames)] : Self.cut(frames, lengths.windows, early: early)
        return Pieces(vocoder: self, features: features, decoded: decoded, isWhole: isWhole, left: cut[...])
    }
}
