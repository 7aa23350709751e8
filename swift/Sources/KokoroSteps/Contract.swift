/// Rates and sizes that both sides of a package agree on. docs/synthesis.md of the repository says what each step does with them.
///
/// In the comments of this module n counts phonemes, T tokens of a token bucket, F frames, B frames of a frame bucket, and C the hidden
/// width of the network. A shape such as [C, F] is row-major.
package enum Contract {
    /// Samples of audio in a second.
    package static let sampleRateHz = 24_000
    /// Samples in one frame; 40 frames are a second.
    package static let frameSamples = 600
    /// Values of F0 and of energy in one frame.
    package static let prosodyPerFrame = 2
    /// Columns of the harmonic spectrum in one frame; one more stands at the end.
    package static let columnsPerFrame = 120
    /// Columns of what enters the generator's last stage in one frame.
    package static let stepsPerFrame = 20
    /// The fundamental and eight overtones.
    package static let harmonics = 9
    /// Points of the short-time Fourier transform, its hop in samples, and its bins.
    package static let fourierPoints = 20, hopSamples = 5, bins = 11
    /// Samples to one value of F0.
    package static let samplesPerPitch = frameSamples / prosodyPerFrame
    /// Width of each half of a voice's row, and the number of its rows: one for each count of phonemes.
    package static let styleWidth = 128, voiceRows = 510
    /// Phonemes that one call says at most.
    package static let mostPhonemes = 510
    /// Phonemes above which a sentence is cut before it is tried.
    package static let comfortablePhonemes = 300
    /// Token before and after the phonemes, and what fills a token bucket.
    package static let boundaryID: Int32 = 0, paddingID: Int32 = -1
    /// Samples of the fade at either end of a chunk.
    package static let fadeSamples = 120
    /// Speeds that the encoder was built for; 2 is twice as fast.
    package static let speeds: ClosedRange<Double> = 0.25...4
    /// F0 in Hz up to which a frame is unvoiced.
    package static let unvoicedUpToHz: Float = 10
}
