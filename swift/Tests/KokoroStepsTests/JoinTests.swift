import Foundation
@testable import KokoroSteps
import Testing

/// Joins as Python's, number by number: tests/pipeline/test_joins.py has the same signals.
@Suite struct JoinTests {
    private func silence(_ count: Int) -> [Float] { [Float](repeating: 0, count: count) }
    private func tone(_ count: Int, _ level: Double = 0.3) -> [Float] { (0..<count).map { Float(level * sin(Double($0) * 0.4 + 1)) } }
    private func symbols(_ text: String) -> [Unicode.Scalar] { Array(text.unicodeScalars) }
    private let durations = [12, 4, 12, 2]

    @Test(arguments: [[], [3000], [6060, 11_000], [17_990], Array(stride(from: 60, to: 18_000, by: 600))])
    func theSoundStaysAndTheSilenceGoesInAnyPieces(_ cuts: [Int]) {
        let word = silence(6000) + tone(6000) + silence(6000)
        var trim = JoinTrim(edges: Joins.edges(durations), phonemes: symbols("ab"), first: false), heard: [Float] = [], from = 0
        for to in cuts + [word.count] {
            heard += trim(Array(word[from..<to]))
            from = to
        }
        #expect(heard.elementsEqual(word[5880..<12_120]))
        #expect(trim.start == 5880)
    }

    @Test func aConsonantOfNoiseFadesOutSlowlyAndTheTextsFirstSilenceStays() {
        let faint = silence(6000) + tone(6000) + tone(1200, 0.005) + silence(4800)
        for (phonemes, kept) in [("as", 13_320), ("aa", 12_120)] {
            var trim = JoinTrim(edges: Joins.edges(durations), phonemes: symbols(phonemes), first: true)
            #expect(trim(faint).count == kept)
        }
    }

    private func behind(_ sound: [Float], _ at: Int) -> [Float] { tone(7200) + silence(at) + sound + silence(6000 - at - sound.count) }

    @Test(arguments: [300, 1000, 3000, 5000]) func aTickBehindTheWordIsCutInAnyPieces(_ at: Int) {
        let whole = behind([0.2, -0.1], at)
        for cuts in [[], [3000, 9000], [7200], [7100, 7300], [12_600]] {
            var trim = JoinTrim(edges: Joins.edges([2, 10, 10]), phonemes: symbols("s"), first: true), count = 0, from = 0
            for to in cuts + [whole.count] {
                count += trim(Array(whole[from..<to])).count
                from = to
            }
            #expect(count == 7320)
        }
    }

    @Test func noWordLosesSound() {
        let tick: [Float] = [0.2, -0.1], noise = tone(600, 0.005) + tick
        let cases: [(String, [Float], Int, Int)] = [
            ("a", tone(2400), 0, 2400), ("a", tone(1200), 600, 1800), ("t", tick, 1200, 1260), ("a", tone(720), 2400, 0), ("a", tone(780), 2400, 3180),
            ("a", tick + silence(238) + tone(2400), 2400, 5040), ("s", noise, 0, 480)
        ]
        for (phonemes, sound, at, end) in cases {
            let heard = Joins.lastSound(behind(sound, at), 0, Joins.edges([2, 10, 10]), symbols(phonemes))
            #expect(heard == 7200 + end, "\(phonemes) \(at)")
        }
    }

    @Test func wordsLieWhereTheySound() {
        let samples = silence(6000) + tone(6000) + silence(4800) + tone(6000) + silence(4200)
        let found = Joins.heard(samples, Joins.edges([12, 4, 12, 2, 2, 4, 6, 2, 1]), symbols("ab, cd."))
        #expect(found == [0, 6000, 9600, 12_000, 14_400, 16_800, 21_600, 22_800, 24_900, 27_000])
    }

    @Test func aCallIsSharedInItsPausesOrNotAtAll() throws {
        let parts = [symbols("ab."), symbols("cd.")], drawn = Joins.withPauses([12, 4, 2, 1, 1, 4, 6, 2, 1], parts)
        #expect(drawn == [12, 4, 10, 8, 6, 4, 6, 2, 1])
        func spoken(_ pause: Int) -> ChunkSynthesis.Spoken {
            let sound = silence(6000) + tone(6000) + silence(pause) + tone(15_000)
            return ChunkSynthesis.Spoken(chunk: FinishedChunk(samples: sound + silence(31_800 - sound.count), gain: 1), durations: drawn)
        }
        let shares = try #require(Joins.shares(spoken(4800), parts))
        #expect(shares.map(\.durations) == [[12, 4, 10, 8, 6], [0, 4, 6, 2, 1]])
        #expect(shares.map(\.edges) == [[0, 7200, 9600, 14_400, 14_400, 14_400], [0, 9600, 12_000, 15_600, 16_800, 17_400]])
        #expect(shares.map(\.samples.count) == [14_400, 17_400])
        #expect(Joins.shares(spoken(600), parts) == nil)
    }
}
