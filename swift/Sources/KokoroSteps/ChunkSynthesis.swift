/// Who computes the three networks: Core ML on Apple's systems, ONNX Runtime elsewhere, recorded tensors in tests.
///
/// A call may take long and blocks; it is made from the speaker's executor.
public protocol SpeechBackend: Sendable {
    /// The lengths that the packages take; empty where they take any.
    var tokenBuckets: Buckets { get }
    var frameBuckets: Buckets { get }
    var vocoderBuckets: Buckets { get }

    /// `ids` [T] padded with -1, `style` [128], `speed` to raw [T] in frames, `hidden` and `text` [1, C, 1, T].
    func durations(ids: [Int32], style: [Float], speed: Float) throws -> EncodedText
    /// `frames` [1, C + 1, 1, B] and `style` [128] to F0 in Hz and energy, [2B] each.
    func prosody(frames: Tensor, style: [Float]) throws -> Prosody
    /// `features` [1, C + 2645, 1, B + 1] and `style` [128] to samples [600B].
    func waveform(features: Tensor, style: [Float]) throws -> [Float]
}

/// What the encoder's first function gives, T columns each.
public struct EncodedText: Sendable {
    public let raw: [Float], hidden: Tensor, text: Tensor

    public init(raw: [Float], hidden: Tensor, text: Tensor) {
        self.raw = raw
        self.hidden = hidden
        self.text = text
    }
}

/// What its second function gives, two values a frame.
public struct Prosody: Sendable {
    public let f0Hz: [Float], energy: [Float]

    public init(f0Hz: [Float], energy: [Float]) {
        self.f0Hz = f0Hz
        self.energy = energy
    }
}

/// One chunk from phonemes to samples, all steps in their order.
public struct ChunkSynthesis: Sendable {
    private let vocabulary: Vocabulary, limits: DurationLimits, source: HarmonicSource, spectrum = HarmonicSpectrum()
    private let backend: any SpeechBackend

    public init(vocabulary: Vocabulary, limits: DurationLimits, source: HarmonicSource, backend: any SpeechBackend) {
        self.vocabulary = vocabulary
        self.limits = limits
        self.source = source
        self.backend = backend
    }

    /// A chunk's samples [600F], and how many frames each token lasts: [n + 2], the boundary tokens included.
    public struct Spoken: Sendable {
        public let chunk: FinishedChunk, durations: [Int]
    }

    /// `row` [256] of the voice for n phonemes. `stop` is asked between the steps, and throws where nobody waits for the result any more.
    public func speak(
        _ phonemes: [Unicode.Scalar], row: [Float], speed: Double, seed: Int, stop: () throws -> Void = {}
    ) throws -> Spoken {
        let ids = try vocabulary.ids(phonemes), style = try VoiceStyle(row: row), pace = try checkedSpeed(speed)
        let input = paddedTokens(ids, to: try backend.tokenBuckets.smallest(holding: ids.count, unit: "tokens"))
        let encoded = try backend.durations(ids: input, style: style.prosody, speed: Float(pace))
        let durations = try limits.wholeFrames(try first(ids.count, of: encoded.raw, "durations"))
        try stop()
        let features = try features(encoded, FrameAlignment(durations: durations), style: style, seed: seed)
        try stop()
        let waveform = try backend.waveform(features: features.tensor, style: style.decoder)
        let samples = try first(Contract.frameSamples * features.frames, of: waveform, "waveform")
        try samples.requireFinite("waveform")
        return Spoken(chunk: FinishedChunk(waveform: samples), durations: durations)
    }

    /// Steps 6 to 12.
    private func features(_ encoded: EncodedText, _ alignment: FrameAlignment, style: VoiceStyle, seed: Int) throws -> (tensor: Tensor, frames: Int) {
        let count = alignment.frames, values = Contract.prosodyPerFrame * count
        let bucket = try backend.frameBuckets.smallest(holding: count, unit: "frames")
        let prosody = try backend.prosody(frames: alignment.frames(hidden: encoded.hidden, bucket: bucket), style: style.prosody)
        let f0Hz = try first(values, of: prosody.f0Hz, "f0_hz"), energy = try first(values, of: prosody.energy, "energy")
        let excitation = try source.excitation(f0Hz: f0Hz, noise: GaussianNoise.forFrames(count, seed: seed))
        let features = try VocoderFeatures(
            asr: alignment.asr(text: encoded.text), f0Hz: f0Hz, energy: energy, spectrum: spectrum.columns(of: excitation))
        return (try features.packed(bucket: try backend.vocoderBuckets.smallest(holding: count, unit: "frames")), count)
    }

    private func first(_ count: Int, of values: [Float], _ name: String) throws(KokoroError) -> [Float] {
        guard values.count >= count else { throw .wrongSize(name, found: values.count, wanted: count) }
        return Array(values[..<count])
    }
}
