@testable import KokoroSteps
import Testing

/// Windows and fades of a chunk that comes in pieces: as Python's, number by number.
@Suite struct StreamingTests {
    @Test func windowsAreCutAsPythonCutsThem() {
        func cut(_ frames: Int, _ early: Bool) -> [[Int]] {
            StreamingVocoder.cut(frames, [24, 64, 128], early: early).map { [$0.start, $0.frames, $0.begin, $0.end] }
        }
        #expect(cut(200, true) == [[0, 24, 0, 22], [20, 64, 22, 82], [72, 128, 82, 200]])
        #expect(cut(200, false) == [[0, 128, 0, 126], [72, 128, 126, 200]])
        #expect(cut(129, true) == [[0, 24, 0, 22], [20, 64, 22, 82], [65, 64, 82, 129]])
        #expect(cut(70, true) == [[0, 24, 0, 22], [6, 64, 22, 70]])
        #expect(cut(1000, true).count == 10 && cut(1000, true).last == [936, 64, 950, 1000])
        #expect(throws: KokoroError.self) { try StreamingLengths(decoder: Buckets([]), utterance: Buckets([]), longest: 20, windows: [24, 128]) }
        #expect(throws: KokoroError.self) { try StreamingLengths(decoder: Buckets([]), utterance: Buckets([]), longest: 100, windows: [4, 64]) }
    }

    private let word = (0..<7200).map { Float($0 % 50) / 50 - 0.5 }

    @Test func aChunkInPiecesIsFinishedAsAWholeOneAndALoudOneTurnedDownFromThereOn() {
        for cuts in [[], [60, 7140], [3000]] {
            var finish = StreamFinish(length: 7200), heard: [Float] = [], from = 0
            for to in cuts + [7200] {
                heard += finish(Array(word[from..<to]))
                from = to
            }
            #expect(heard == FinishedChunk(waveform: word).samples && finish.gain == 1)
        }
        var finish = StreamFinish(length: 2000)
        let quiet = finish([Float](repeating: 0.5, count: 1000)), loud = finish([Float](repeating: 2, count: 1000))
        #expect(quiet[500] == 0.5 && loud[0] == 1 && loud[500] == 1 && finish.gain == 0.5)
    }

    @Test func theStreamingLayoutsSpectrumHasSixColumnsAsRows() throws {
        let spectrum = (0..<22 * 361).map { Float($0) }, asr = try Tensor("asr", shape: [1, 1, 3], values: [1, 2, 3])
        let features = try VocoderFeatures(asr: asr, f0Hz: [1, 2, 3, 4, 5, 6], energy: [1, 2, 3, 4, 5, 6], spectrum: spectrum)
        let plain = try features.packed(bucket: 4), turned = try features.packed(bucket: 4, phases: 6)
        #expect(plain.shape == turned.shape && plain.values.prefix(30).elementsEqual(turned.values.prefix(30)))
        for (channel, place, step) in [(0, 0, 0), (0, 5, 59), (5, 3, 21), (21, 0, 60)] {
            #expect(turned.values[30 + (channel * 6 + place) * 100 + step] == spectrum[channel * 361 + 6 * step + place])
        }
    }
}
