import Foundation
@testable import KokoroText
import KokoroSteps
import Testing

extension RuleReader {
    /// What is said of a text, call by call.
    func chunks(of text: String) throws -> [PhonemeChunk] {
        var place = Place(text), found: [PhonemeChunk] = []
        while let parts = try next(&place) { for part in parts { found += try part.cut(longest: Contract.comfortablePhonemes) } }
        return found
    }

    func phonemes(of text: String) throws -> String { try chunks(of: text).map { String(String.UnicodeScalarView($0.phonemes)) }.joined(separator: " ") }
}

/// Texts against what Python wrote into the bundle (text/us.texts.tsv): numbers, money, dates, names, markup, messages, words alone.
@Suite struct RuleTests {
    static func folder() throws -> URL {
        guard let path = ProcessInfo.processInfo.environment["KOKORO_BUNDLE"] else { throw KokoroError.badFile("KOKORO_BUNDLE", reason: "names no bundle") }
        return URL(fileURLWithPath: path, isDirectory: true)
    }

    /// A copy of the bundle's text tables, one of them changed.
    private func spoilt(_ name: String, _ change: (Data) -> Data) throws -> URL {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString, isDirectory: true)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try FileManager.default.copyItem(at: Self.folder().appendingPathComponent("text"), to: folder.appendingPathComponent("text"))
        let file = folder.appendingPathComponent("text/\(name)")
        try change(Data(contentsOf: file)).write(to: file)
        return folder
    }

    @Test func textsAreReadAsPythonReadsThem() throws {
        let text = try Self.folder().appendingPathComponent("text")
        for file in try FileManager.default.contentsOfDirectory(atPath: text.path) where file.hasSuffix(".texts.tsv") {
            let language = String(file.prefix { $0 != "." }), reader = try RuleReader(bundle: Self.folder(), language: language)
            var total = 0, wrong: [String] = []
            for line in try String(contentsOf: text.appendingPathComponent(file), encoding: .utf8).split(separator: "\n") {
                let row = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init), found = try reader.phonemes(of: row[0])
                total += 1
                if Array(found.unicodeScalars) != Array(row[1].unicodeScalars) { wrong.append("\(row[0]): \(found), wanted \(row[1])") }
            }
            print("   \(language): \(total - wrong.count) of \(total) texts equal", wrong.prefix(12))
            #expect(total > (language == "us" ? 1000 : 15) && wrong.count * 1000 <= total, "\(wrong.prefix(12))")
        }
    }

    /// The cases of Python's open pipe (swift/Tests/live_text.tsv).
    @Test func aTextThatIsStillWrittenIsCutAsPythonCutsIt() throws {
        let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent("live_text.tsv")
        let reader = try RuleReader(bundle: Self.folder(), language: "us")
        for line in try String(contentsOf: file, encoding: .utf8).split(separator: "\n").dropFirst() {
            let row = line.split(separator: "\t", omittingEmptySubsequences: false).map { $0.replacingOccurrences(of: "⏎", with: "\n") }
            var place = RuleReader.Place(), end = 0
            place.write(row[0])
            if row[1] == "yes" { place.write("") }
            while let parts = try reader.next(&place) { end = parts.last?.words.last?.place.upperBound ?? end }
            #expect(String(row[0].prefix(end)) == row[2].trimmingCharacters(in: .whitespacesAndNewlines), "\(row)")
        }
    }

    @Test func wordsAreFoundWithWhatTheListsSay() throws {
        let lists = try WordLists(file: Self.folder().appendingPathComponent("text/us.words")), gold = lists.list("g"), classes = lists.list("t")
        func said(_ list: HeldTable, _ word: String) throws -> Value? { try list.value(.text(Text(word))) }
        #expect(try said(gold, "'Merica") == .text(Text("mˈɛɹəkə")) && said(gold, "lead")?.kind == "dict" && said(classes, "lead") != nil)
        for word in ["", "!", "leadx", "zzzzzz", "\u{10FFFF}", "leaxy"] { #expect(try said(gold, word) == nil, "\(word)") }
        let words = try String(contentsOf: Self.folder().appendingPathComponent("text/us.texts.tsv"), encoding: .utf8).split(separator: "\n").map { Text(String($0.prefix { $0 != "\t" })) }
        let took = try ContinuousClock().measure { for word in words { _ = try gold.value(.text(word)) } }
        print("   \(words.count) look-ups: \(took / words.count) each")
    }

    /// NAME.chunks.json of a bundle.
    private struct MarkedTexts: Decodable {
        struct Marked: Decodable { let text: String, chunks: [Part] }
        struct Part: Decodable, Equatable {
            let phonemes: String, ending: String, rate: Double, pause: Double?, voice: String?, opening: String?
            enum CodingKeys: String, CodingKey { case phonemes, ending, rate, pause = "pause_before_s", voice, opening }
        }
        let texts: [Marked]
    }

    @Test func pausesPacesAndVoicesAreThoseOfPython() throws {
        let text = try Self.folder().appendingPathComponent("text")
        for file in try FileManager.default.contentsOfDirectory(atPath: text.path) where file.hasSuffix(".chunks.json") {
            let wanted = try JSONDecoder().decode(MarkedTexts.self, from: Data(contentsOf: text.appendingPathComponent(file))).texts
            let reader = try RuleReader(bundle: Self.folder(), language: String(file.prefix { $0 != "." }))
            #expect(wanted.count > 5 && wanted.contains { $0.chunks.contains { $0.rate != 1 } } && wanted.contains { $0.chunks.last?.phonemes == "" || $0.chunks.last?.voice != nil } && wanted.contains { $0.chunks.contains { $0.opening == "scene" } })
            for marked in wanted {
                let said = try reader.chunks(of: marked.text).map { MarkedTexts.Part(phonemes: String(String.UnicodeScalarView($0.phonemes)), ending: $0.ending.rawValue, rate: $0.rate, pause: $0.pauseBefore, voice: $0.voice.isEmpty ? nil : $0.voice, opening: $0.opening?.rawValue) }
                let differs = zip(said, marked.chunks).first { $0 != $1 }
                #expect(differs == nil && said.count == marked.chunks.count, "\(file): \(marked.text.prefix(60))")
            }
        }
    }

    @Test func sentencesComeOneByOneWithTheirPlacesAndPauses() throws {
        let reader = try RuleReader(bundle: Self.folder(), language: "us")
        let text = "It cost $3.50, Dr. Smith. [pause 1.5s] Done!\n\nNext.", scalars = Array(text.unicodeScalars)
        var place = RuleReader.Place(text), found: [PhonemeChunk] = []
        while let parts = try reader.next(&place) { found += parts }
        #expect(found.map(\.ending) == [.sentence, .paragraph, .sentence] && found.map(\.pauseBefore) == [nil, 1.5, nil])
        #expect(found[0].words.contains { $0.text == "$3.50" && String(String.UnicodeScalarView($0.phonemes)) == "dˈɑləɹz" })
        for word in found.flatMap(\.words) { #expect(word.text == String(String.UnicodeScalarView(scalars[word.place]))) }
    }

    @Test func aLongTextIsCutAsOneThatCameInPieces() throws {
        let reader = try RuleReader(bundle: Self.folder(), language: "us")
        var place = RuleReader.Place(String(repeating: "Mr. Fox ran 3 km. He was late. ", count: 400)), count = 0
        while let parts = try reader.next(&place) { count += parts.count }
        #expect(count == 800)
    }

    @Test func whatIsMissingOrDamagedIsNamed() throws {
        #expect(throws: KokoroError.self) { try RuleReader(bundle: Self.folder(), language: "xx") }
        #expect(throws: KokoroError.self) { try RuleReader(bundle: spoilt("us.rules") { $0.prefix(3) }, language: "us") }
        #expect(throws: KokoroError.self) { try RuleReader(bundle: spoilt("us.json") { _ in Data("{}".utf8) }, language: "us") }
        // an incomplete or other list is an error: none reads on with the network alone (FluidAudio 727)
        let spoils: [(Data) -> Data] = [{ $0.dropLast() }, { $0.prefix($0.count / 2) }, { _ in Data() }, { $0.prefix(4) + Data([1]) + $0.dropFirst(5) }]
        for spoil in spoils { #expect(throws: KokoroError.self) { try RuleReader(bundle: spoilt("us.words", spoil), language: "us") } }
        for share in [0.3, 0.6, 0.9] {  // whatever is missing, nothing aborts
            let half = try? RuleReader(bundle: spoilt("us.rules") { data in
                data.prefix(200_000) + Data(repeating: 0xFF, count: 40) + data.dropFirst(Int(200_040 + share * 10))
            }, language: "us")
            _ = try? half?.phonemes(of: "On 3/15/2026 Dr. Smith read 5 kg of books.")
        }
        #expect(crc32("123456789") == 0xCBF4_3926)
    }

    @Test func aTextOfStrangeCharactersIsAnswered() throws {
        let reader = try RuleReader(bundle: Self.folder(), language: "us")
        for strange in ["", " \u{301}", "🇪🇸👩‍👩‍👧", "\u{0}\u{7F}", "ﬁ ²¼ ㎏", String(repeating: "(", count: 5000), "e\u{301}te\u{301}"] {
            _ = try reader.phonemes(of: strange)
        }
    }
}
