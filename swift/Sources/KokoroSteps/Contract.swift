/// Rates and sizes that both sides of a package agree on. docs/synthesis.md of the repository says what each step does with them.
///
/// In the comments of this module n counts phonemes, T tokens of a token bucket, F frames, B frames of a frame bucket, and C the hidden
/// width of the network. A shape such as [C, F] is row-major.
public enum Contract {
    /// Samples of audio in a second.
    public static let sampleRateHz = 24_000
    /// Samples in one frame; 40 frames are a second.
    public static let frameSamples = 600
    /// Values of F0 and of energy in one frame.
    public static let prosodyPerFrame = 2
    /// Columns of the harmonic spectrum in one frame; one more stands at the end.
    public static let columnsPerFrame = 120
    /// Columns of what enters the generator's last stage in one frame.
    public static let stepsPerFrame = 20
    /// The fundamental and eight overtones.
    public static let harmonics = 9
    /// Points of the short-time Fourier transform, its hop in samples, and its bins.
    public static let fourierPoints = 20, hopSamples = 5, bins = 11
    /// Samples to one value of F0.
    public static let samplesPerPitch = frameSamples / prosodyPerFrame
    /// Width of each half of a voice's row, and the number of its rows: one for each count of phonemes.
    public static let styleWidth = 128, voiceRows = 510
    /// Phonemes that one call says at most.
    public static let mostPhonemes = 510
    /// Phonemes above which a sentence is cut before it is tried.
    public static let comfortablePhonemes = 300
    /// Token before and after the phonemes, and what fills a token bucket.
    public static let boundaryID: Int32 = 0, paddingID: Int32 = -1
    /// Samples of the fade at either end of a chunk.
    public static let fadeSamples = 120
    /// Speeds that the encoder was built for; 2 is twice as fast.
    public static let speeds: ClosedRange<Double> = 0.25...4
    /// F0 in Hz up to which a frame is unvoiced.
    public static let unvoicedUpToHz: Float = 10
}
