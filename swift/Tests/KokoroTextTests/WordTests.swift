import Foundation
@testable import KokoroText
import KokoroSteps
import Testing

/// Words and tags against what Python wrote into the bundle (text/us.words.tsv, text/us.tags.tsv).
@Suite struct WordTests {
    static func folder() throws -> URL {
        guard let path = ProcessInfo.processInfo.environment["KOKORO_BUNDLE"] else { throw KokoroError.badFile("KOKORO_BUNDLE", reason: "names no bundle") }
        return URL(fileURLWithPath: path, isDirectory: true)
    }

    private func rows(_ name: String) throws -> [[String]] {
        try String(contentsOf: Self.folder().appendingPathComponent("text/\(name)"), encoding: .utf8).split(separator: "\n").map {
            $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        }
    }

    @Test func wordsAreReadAsPythonReadsThem() throws {
        let reader = try WordReader(bundle: Self.folder()), clock = ContinuousClock(), started = clock.now
        var wrong: [String: [String]] = [:], counts: [String: Int] = [:]
        for row in try rows("us.words.tsv") {
            let kind = ["gold", "ours", "cmudict", "silver"].contains(row[1]) ? "lexicon" : row[1], found = reader.read(row[0])
            counts[kind, default: 0] += 1
            if Array(found.phonemes.unicodeScalars) != Array(row[2].unicodeScalars) {
                wrong[kind, default: []].append("\(row[0]) \(found.source) \(found.phonemes), wanted \(row[1]) \(row[2])")
            } else if kind == "neural" {
                #expect(abs(found.confidence - (Double(row[3]) ?? -1)) < 1e-3, "\(row[0])")
            }
        }
        let total = counts.values.reduce(0, +), missed = wrong.values.reduce(0) { $0 + $1.count }
        print("   \(total - missed) of \(total) words equal, in \(clock.now - started)")
        for (kind, found) in wrong.sorted(by: { $0.key < $1.key }) {
            print("   \(kind): \(found.count) of \(counts[kind] ?? 0)", found.prefix(12).joined(separator: "; "))
        }
        #expect(total > 1000 && Double(missed) <= 0.02 * Double(total))
    }

    @Test func sentencesOfWordsAreSaidAsPythonSaysThem() throws {
        let reader = try WordReader(bundle: Self.folder())
        for row in try rows("us.sentences.tsv") {
            let reading = PlainTextReading(row[0], reader: reader)
            var said: [String] = [], place = 0
            while let found = try reading.sentence(from: place) {
                said.append(String(String.UnicodeScalarView(found.chunk.phonemes)))
                place = found.next
            }
            #expect(said.joined(separator: " ") == row[1])
        }
    }

    @Test(arguments: [("It costs $3.", "$3.", 9), ("Dr. Smith", "Dr.", 0), ("an mp3 file", "mp3", 3), ("see A4", "A4", 4)])
    func whatHasToBeWrittenOutIsNamed(_ text: String, _ part: String, _ place: Int) throws {
        let reading = PlainTextReading(text, reader: try WordReader(bundle: Self.folder()))
        #expect(throws: KokoroError.needsNormalization(part, place: place)) { try reading.sentence(from: 0) }
    }

    @Test func tagsAndTheirSharesArePythons() throws {
        let tagger = PartOfSpeechTagger(try TextTables(folder: Self.folder().appendingPathComponent("text"), dialect: "us"))
        for row in try rows("us.tags.tsv") {
            let words = row[0].split(separator: " ").map(String.init), place = Int(row[1]) ?? 0
            let share = tagger.probabilities(words, at: place).map(\.share).max() ?? 0
            #expect(tagger.tag(words, at: place) == row[2] && abs(share - (Double(row[3]) ?? -1)) < 1e-5, "\(row)")
        }
        #expect(crc32("123456789") == 0xCBF4_3926)
    }

    @Test func whatIsMissingIsNamed() throws {
        #expect(throws: KokoroError.self) { try WordReader(bundle: Self.folder(), dialect: "gb") }
        #expect(throws: KokoroError.badFile("us.json", reason: "missing, or not as `kokoro-ane bundle` writes it")) { try WordReader(bundle: URL(fileURLWithPath: "/nowhere")) }
    }
}
