/// Who computes the three networks: Core ML on Apple's systems, ONNX Runtime elsewhere, recorded tensors in tests.
///
/// A call may take long and blocks; it is made from the speaker's executor.
package protocol SpeechBackend: Sendable {
    /// The lengths that the packages take; empty where they take any.
    var tokenBuckets: Buckets { get }
    var frameBuckets: Buckets { get }
    var vocoderBuckets: Buckets { get }

    /// `ids` [T] padded with -1, `style` [128], `speed` to raw [T] in frames, `hidden` and `text` [1, C, 1, T].
    func durations(ids: [Int32], style: [Float], speed: Float) throws -> EncodedText
    /// `frames` [1, C + 1, 1, B] and `style` [128] to F0 in Hz and energy, [2B] each.
    func prosody(frames: Tensor, style: [Float]) throws -> Prosody
    /// `features` [1, C + 2645, 1, B + 1] and `style` [128] to samples [600B]; not called where the vocoder is of the streaming layout.
    func waveform(features: Tensor, style: [Float]) throws -> [Float]
    /// The vocoder, where it is of the streaming layout.
    var streaming: StreamingVocoder? { get }
}

extension SpeechBackend {
    package var streaming: StreamingVocoder? { nil }
}

/// What the encoder's first function gives, T columns each.
package struct EncodedText: Sendable {
    package let raw: [Float], hidden: Tensor, text: Tensor

    package init(raw: [Float], hidden: Tensor, text: Tensor) {
        (self.raw, self.hidden, self.text) = (raw, hidden, text)
    }
}

/// What its second function gives, two values a frame.
package struct Prosody: Sendable {
    package let f0Hz: [Float], energy: [Float]

    package init(f0Hz: [Float], energy: [Float]) {
        (self.f0Hz, self.energy) = (f0Hz, energy)
    }
}

/// One chunk from phonemes to samples, all steps in their order.
package struct ChunkSynthesis: Sendable {
    private let vocabulary: Vocabulary, limits: DurationLimits, source: HarmonicSource, spectrum = HarmonicSpectrum()
    private let backend: any SpeechBackend

    package init(vocabulary: Vocabulary, limits: DurationLimits, source: HarmonicSource, backend: any SpeechBackend) {
        (self.vocabulary, self.limits, self.source, self.backend) = (vocabulary, limits, source, backend)
    }

    /// A chunk's samples [600F], and how many frames each token lasts: [n + 2], the boundary tokens included.
    package struct Spoken: Sendable {
        package let chunk: FinishedChunk, durations: [Int]
        package init(chunk: FinishedChunk, durations: [Int]) { (self.chunk, self.durations) = (chunk, durations) }
    }

    /// A chunk under way: its samples window by window.
    package struct Streamed: Sendable {
        package let durations: [Int]
        private var pieces: StreamingVocoder.Pieces, finish: StreamFinish, trim: JoinTrim?

        init(_ durations: [Int], _ pieces: StreamingVocoder.Pieces, _ trim: JoinTrim?) {
            (self.durations, self.pieces, self.trim) = (durations, pieces, trim)
            finish = StreamFinish(length: Contract.frameSamples * durations.reduce(0, +))
        }

        /// Where tokens begin in the samples, by durations: behind the first sound, energy is not known yet.
        package var edges: [Int] { Joins.edges(durations).map { max(0, $0 - (trim?.start ?? 0)) } }

        /// What can be heard next, and nil behind the last.
        package mutating func next() throws -> FinishedChunk? {
            while let piece = try pieces.next() {
                let made = finish(piece), heard = trim?(made) ?? made
                if !heard.isEmpty { return FinishedChunk(samples: heard, gain: finish.gain) }
            }
            return nil
        }
    }

    /// The same arguments as `speak`; `raw`: with the model's silence and ticks; nil where the vocoder is of another layout.
    package func stream(
        _ phonemes: [Unicode.Scalar], row: [Float], speed: Double, seed: Int, raw: Bool = false, first: Bool = true, stop: () throws -> Void = {}
    ) throws -> Streamed? {
        guard let vocoder = backend.streaming else { return nil }
        let (durations, features, style) = try encoded([phonemes], row, speed, seed, stop)
        let trim = raw ? nil : JoinTrim(edges: Joins.edges(durations), phonemes: phonemes, first: first)
        return Streamed(durations, try vocoder.pieces(features, style: style), trim)
    }

    /// `parts`: the chunks of one call, `row` [256 + 2R] of the voice for its n phonemes; `stop` is asked between the steps, and throws where nobody waits for the result any more.
    package func speak(
        _ parts: [[Unicode.Scalar]], row: [Float], speed: Double, seed: Int, stop: () throws -> Void = {}
    ) throws -> Spoken {
        let (durations, features, style) = try encoded(parts, row, speed, seed, stop), count = features.asr.columns
        var waveform: [Float] = []
        if var pieces = try backend.streaming?.pieces(features, style: style, early: false) {
            while let piece = try pieces.next() { waveform += piece }
        } else {
            let packed = try features.packed(bucket: try backend.vocoderBuckets.smallest(holding: count, unit: "frames"))
            waveform = try first(Contract.frameSamples * count, of: try backend.waveform(features: packed, style: style.decoder), "waveform")
            try waveform.requireFinite("waveform")
        }
        return Spoken(chunk: FinishedChunk(waveform: waveform), durations: durations)
    }

    /// Steps 1 to 11, and the voice's style.
    private func encoded(
        _ parts: [[Unicode.Scalar]], _ row: [Float], _ speed: Double, _ seed: Int, _ stop: () throws -> Void
    ) throws -> (durations: [Int], features: VocoderFeatures, style: VoiceStyle) {
        let ids = try vocabulary.ids(Array(parts.joined(separator: [" "]))), style = try VoiceStyle(row: row), pace = try checkedSpeed(speed)
        let input = paddedTokens(ids, to: try backend.tokenBuckets.smallest(holding: ids.count, unit: "tokens"))
        let encoded = try backend.durations(ids: input, style: style.prosody, speed: Float(pace))
        let durations = Joins.withPauses(try limits.wholeFrames(try first(ids.count, of: encoded.raw, "durations")), parts)
        try stop()
        let features = try features(encoded, FrameAlignment(durations: durations), style: style, seed: seed)
        try stop()
        return (durations, features, style)
    }

    /// Steps 6 to 11.
    private func features(_ encoded: EncodedText, _ alignment: FrameAlignment, style: VoiceStyle, seed: Int) throws -> VocoderFeatures {
        let count = alignment.frames, values = Contract.prosodyPerFrame * count
        let bucket = try backend.frameBuckets.smallest(holding: count, unit: "frames")
        let prosody = try backend.prosody(frames: alignment.frames(hidden: encoded.hidden, bucket: bucket), style: style.prosody)
        let f0Hz = try first(values, of: prosody.f0Hz, "f0_hz"), energy = try first(values, of: prosody.energy, "energy")
        let excitation = try source.excitation(f0Hz: f0Hz, noise: GaussianNoise.forFrames(count, seed: seed))
        return try VocoderFeatures(
            asr: alignment.asr(text: encoded.text), f0Hz: f0Hz, energy: energy, spectrum: spectrum.columns(of: excitation))
    }

    private func first(_ count: Int, of values: [Float], _ name: String) throws(KokoroError) -> [Float] {
        guard values.count >= count else { throw .wrongSize(name, found: values.count, wanted: count) }
        return Array(values[..<count])
    }
}
