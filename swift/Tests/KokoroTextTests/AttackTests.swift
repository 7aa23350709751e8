import Foundation
@testable import KokoroText
import KokoroSteps
import Testing

/// Texts that repeat one piece without end, on a thread of 512 KB, which is what a secondary thread of Apple's systems has.
@Suite struct AttackTests {
    private static let attacks: [(piece: String, count: Int)] = [
        ("a", 1906), ("a", 100_000), ("a ", 20_000), ("well-", 640), ("well-", 20_000), ("ha ha ", 5000), ("(", 5000), ("[", 20_000), ("<b>", 3000),
        ("<prosody rate=\"slow\">", 2000), ("[pause 1s]", 3000), ("9", 20_000), ("1,", 5000), ("$1.50 ", 3000), ("XIV ", 3000), ("A", 20_000),
        ("a.b.", 5000), ("Mr. ", 3000), ("-", 20_000), ("'a", 5000), ("twenty-", 4000), ("@a", 4000), ("#", 9000), ("a/b/", 4000), ("_a_", 5000),
        ("**a**", 4000), ("x^2+", 4000), ("?!", 9000), ("\u{E9}", 20_000), ("e\u{301}", 10_000), ("\u{1F600}", 5000), ("http://a.", 5000), ("\n", 20_000),
    ]

    /// What a body throws on a thread of that size; nil where it ends well.
    private func failure(_ body: @escaping @Sendable () throws -> Void) async -> (any Error)? {
        await withCheckedContinuation { ended in
            let thread = Thread {
                do { try body() } catch { return ended.resume(returning: error) }
                ended.resume(returning: nil)
            }
            thread.stackSize = 512 << 10
            thread.start()
        }
    }

    @Test(arguments: ["us", "gb"]) func repeatedPiecesAreReadWithAStackOf512Kilobytes(language: String) async throws {
        let folder = try RuleTests.folder()
        guard FileManager.default.fileExists(atPath: folder.appendingPathComponent("text/\(language).rules").path) else { return }
        let failure = await failure {
            let reader = try RuleReader(bundle: folder, language: language)
            for (piece, count) in Self.attacks { _ = try reader.chunks(of: String(repeating: piece, count: count)) }
        }
        #expect(failure == nil)
    }

    /// What Python's re gives for the same patterns is in RuleTests by way of the rules; these are the repetitions that used to nest calls.
    @Test func aRepetitionGoesBackStepByStep() async throws {
        func step(_ kind: PatternStep.Kind, _ next: PatternStep?) -> PatternStep { PatternStep(kind, next: next) }
        // (?:a|b)*b, by hand
        let loop = PatternStep(.nothing, next: PatternStep(.literal(98), next: PatternStep(.end)))
        let ways = [97, 98].map { step(.literal($0), step(.again, loop)) }
        loop.kind = .loop(step(.branch(ways), nil), least: 0, most: .max, isGreedy: true, number: 0)
        let pattern = RulePattern(source: Text(""), groups: 0, names: [:], loops: 1, start: loop)
        let text = Text([UInt32](repeating: 97, count: 50_000) + [98, 97, 97])
        #expect(pattern.match(text, mode: .match)?.end == 50_001 && pattern.match(Text("aaa"), mode: .match) == nil)
        #expect(pattern.match(text, mode: .full) == nil)
    }
}
