import KokoroSteps
import Testing

/// Bad input ends in the error that names it, and nothing aborts.
@Suite struct RefusalTests {
    private let vocabulary = Vocabulary(["h": 1, " ": 2])

    @Test func phonemesThatCannotBeSaid() {
        #expect(throws: KokoroError.nothingToSay) { try vocabulary.ids([]) }
        #expect(throws: KokoroError.nothingToSay) { try vocabulary.ids([" "]) }
        #expect(throws: KokoroError.unknownSymbol("ɚ", place: 1)) { try vocabulary.ids(["h", "ɚ"]) }
        #expect(throws: KokoroError.tooManyPhonemes(511, most: 510)) { try vocabulary.ids(Array(repeating: "h", count: 511)) }
        #expect(throws: KokoroError.tooManyPhonemes(511, most: 510)) { try VoiceStyle.rowIndex(phonemes: 511) }
    }

    @Test func durationsRoundHalfToEvenAndAreRefusedBeyondTheLimits() throws {
        let limits = DurationLimits(tokenFrames: 200, totalFrames: 300)
        #expect(try limits.wholeFrames([0.2, 1.5, 2.5, 3.5]) == [1, 2, 2, 4])
        #expect(throws: KokoroError.utteranceTooLong(360, most: 300, unit: "frames")) { try limits.wholeFrames([180, 180]) }
        for bad: Float in [.nan, .infinity, 201, 1e30] {
            #expect(throws: KokoroError.self) { try limits.wholeFrames([bad]) }
        }
    }

    @Test(arguments: [Double.nan, 0.2, 4.1, -1]) func speedsOutOfRange(_ speed: Double) {
        #expect(throws: KokoroError.self) { try checkedSpeed(speed) }
    }

    @Test func lengthsThatDoNotFit() throws {
        #expect(try Buckets([20, 40]).smallest(holding: 21, unit: "frames") == 40)
        #expect(try Buckets([]).smallest(holding: 21, unit: "frames") == 21)
        #expect(throws: KokoroError.utteranceTooLong(41, most: 40, unit: "frames")) { try Buckets([20, 40]).smallest(holding: 41, unit: "frames") }
        #expect(throws: KokoroError.wrongSize("x", found: 3, wanted: 4)) { try Tensor("x", shape: [2, 2], values: [1, 2, 3]) }
        #expect(throws: KokoroError.self) { try FrameAlignment(durations: []).asr(text: Tensor("text", shape: [1, 2, 1, 1], values: [1, 2])) }
        #expect(throws: KokoroError.self) { try HarmonicSpectrum().columns(of: [1, 2, 3]) }
        #expect(throws: KokoroError.self) { try HarmonicSource(weights: [1], bias: 0) }
        let asr = try Tensor("asr", shape: [1, 1, 1], values: [.nan])
        let spectrum = [Float](repeating: 0, count: 22 * 121)
        #expect(throws: KokoroError.notFinite("asr", place: 0)) {
            try VocoderFeatures(asr: asr, f0Hz: [0, 0], energy: [0, 0], spectrum: spectrum)
        }
    }

    @Test func shortChunksAreFadedByHalf() {
        let finished = FinishedChunk(waveform: [2, 2, 2, 2])
        #expect(finished.gain < 1 && finished.samples.allSatisfy { abs($0) <= 1 })
        #expect(FinishedChunk(waveform: []).samples.isEmpty)
        let step: Float = 1.0 / 32767
        #expect(pcm16([1, -1, 0, 1.5, -2, 0.4 * step, 1.6 * step]) == [32767, -32767, 0, 32767, -32767, 0, 2])
    }
}
