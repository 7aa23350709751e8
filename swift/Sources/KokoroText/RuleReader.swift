import Foundation
import KokoroSteps

/// Text to phonemes in one language: g2p's own rules (text/us.rules of a bundle), with its word lists and networks.
///
/// It remembers words that it has read, so it belongs to one actor.
package final class RuleReader {
    private let program: RuleProgram, cut: Value, sentence: Value, read: Value, parts: Value, paragraph: Value, voice: Value, opening: Value?
    private var fields: [ObjectIdentifier: [String: Int]] = [:]

    /// `folder`: a bundle's; `language`: us, gb, es, it, fr, pt, zh or hi; `lexicon`: phonemes of words that go before all lists. Throws `badFile`;
    /// `unsupported` for a language that the bundle has no rules for.
    package init(bundle folder: URL, language: String, lexicon: [String: String] = [:]) throws(KokoroError) {
        let text = folder.appendingPathComponent("text"), file = text.appendingPathComponent("\(language).rules")
        guard FileManager.default.fileExists(atPath: file.path) else {
            throw .unsupported("this bundle reads no text in \(language): bundle a voice that speaks it, or give phonemes")
        }
        do {
            program = try RuleProgram([UInt8](Data(contentsOf: file)), natives: { try Self.natives(text, language, lexicon, $0) })
            (cut, sentence) = (try program.root("cut"), try program.root("sentence"))
            (read, parts, paragraph) = (try program.root("read"), try program.root("parts"), try program.root("paragraph"))
            voice = try program.root("voice")
            opening = try? program.root("opening")  // bundles before version 0.3 know no headings
        } catch let error as KokoroError { throw error } catch { throw .badFile(file.lastPathComponent, reason: "unreadable") }
    }

    /// What the rules hold and this package keeps outside of them.
    private static func natives(_ text: URL, _ language: String, _ lexicon: [String: String], _ program: RuleProgram) throws -> RuleProgram.Natives {
        let lists = try WordLists(file: text.appendingPathComponent("\(language).words")), others = LateReaders(bundle: text.deletingLastPathComponent())
        var found: RuleProgram.Natives = ["weights": .none, "others": .callable(Builtin("read") { given, _ in try others.read(given[0], given[1]) })]
        // Mandarin has neither network nor tagger
        if FileManager.default.fileExists(atPath: text.appendingPathComponent("\(language).json").path) {
            let tables = try TextTables(folder: text, dialect: language), network = LateNetwork(tables)
            found["neural"] = .callable(Builtin("predict") { given, _ in .list(List(try items(given[0]).map { try network.guess($0, program) })) })
            found["scores"] = .callable(Builtin("scores") { given, _ in
                let sums = try items(given[1]).reduce(into: [Int](repeating: 0, count: tables.columns("tagger.weights"))) { sums, row in
                    for (tag, weight) in tables.bytes("tagger.weights", row: row.whole ?? 0).enumerated() { sums[tag] += Int(weight) }
                }
                return .list(List(sums.map { .float(Double($0) * tables.rules.tagger.scale) }))
            })
            found["rows"] = .held(HeldTable { key in tables.row(of: key.whole ?? 0, in: "tagger.features").map { .int($0) } })
            found["heteronyms"] = .held(HeldTable { key in tables.bytes("heteronyms.weights", row: key.whole ?? 0).first.map { .int(Int($0)) } })
        }
        found["list.user"] = .held(HeldTable { key in if case .text(let word) = key { lexicon[word.string].map { .text(Text($0)) } } else { nil } })
        for (list, letter) in ["ours": "o", "gold": "g", "cmudict": "c", "silver": "s", "classes": "t", "listed": "l"] { found["list.\(list)"] = .held(lists.list(letter)) }
        return found
    }

    /// The sentences of a text, cut one by one. A value: it can wait between two of them.
    package struct Place: Sendable {
        fileprivate var text: Text
        /// More of the text may come.
        package private(set) var isOpen = false
        private var given = 0, buffer = Text([]), offset = 0, waiting: [(Int, Text)] = [], isDone = false, isIdle = false
        /// Seconds of silence that the text asked for behind the last word, and whether there was a word.
        fileprivate var asked: Double?, hasSpoken = false
        /// Start tags of the elements that are open where the next sentence begins.
        fileprivate var open: [Text] = []
        private static let block = 4096, ahead = [UInt32](repeating: 32, count: 200), word = Text(" The end").units
        package init(_ text: String) { self.text = Text(text) }

        /// Of a text that is still being written; `next` of the reader answers nil where more of it is needed.
        package init() { (text, isOpen) = (Text([]), true) }

        /// What comes next; nil behind the last; an empty text where nothing comes for now, so that a word stands in for the next one.
        package mutating func write(_ more: String?) {
            text.units += Text(more ?? "").units
            (isOpen, isIdle) = (more != nil, more == "")
        }

        /// What stands before a sentence and behind it, by which its lines are judged: as many characters as g2p's splitting.py looks at.
        fileprivate func around(_ start: Int, _ count: Int) -> [Value] {
            let end = min(start + count, text.count), units = text.units
            return [.text(Text(units[max(0, start - 400)..<start])), .text(Text(units[end..<min(end + 64, units.count)]))]
        }

        /// The next sentence's place and text.
        mutating func next(_ cut: Value) throws -> (Int, Text)? {
            while waiting.isEmpty {
                if isDone { return nil }
                // the last word may go on
                let known = isOpen && !isIdle ? (text.units.lastIndex(where: RuleTextMethods.isSpace) ?? -1) + 1 : text.count
                let more = text.units[given..<max(given, min(given + Self.block, known))]
                if isOpen, !isIdle, more.isEmpty { return nil }
                isDone = !isOpen && more.isEmpty
                given += more.count
                buffer.units += more
                var used = 0
                // what is whole is cut as soon as the next word is there
                let shown = isOpen && given == known ? Text(buffer.units + (isIdle ? Self.word : []) + Self.ahead) : buffer
                isIdle = isIdle && given < known
                for span in try items(invoke(cut, [.text(shown), .bool(isDone)])) {
                    let both = try items(span), start = both[0].whole ?? 0, end = both[1].whole ?? 0, part = buffer.units[start..<end]
                    used = end
                    guard let first = part.firstIndex(where: { !RuleTextMethods.isSpace($0) }), let last = part.lastIndex(where: { !RuleTextMethods.isSpace($0) })
                    else { continue }
                    waiting.append((offset + first, Text(part[first...last])))
                }
                buffer = Text(buffer.units[used...])
                offset += used
            }
            return waiting.removeFirst()
        }
    }

    /// The next sentence with something to say: its parts between the pauses and paces that it asks for; at the end the silence that is asked
    /// for there, as a chunk of no words. nil behind the last. `other`: who reads what a voice says that the text names.
    package func next(_ place: inout Place, other: (String) throws(KokoroError) -> RuleReader? = { _ in nil }) throws(KokoroError) -> [PhonemeChunk]? {
        do {
            while let (offset, text) = try place.next(cut) {
                var reader = self
                if !place.open.isEmpty, case .text(let name) = try invoke(voice, [.tuple(place.open.map(Value.text))]), name.count > 0 {
                    reader = try other(name.string) ?? self
                }
                let chunks = try reader.chunks(offset, text, &place)
                if !chunks.isEmpty { return chunks }
            }
            guard !place.isOpen, let asked = place.asked, place.hasSpoken else { return nil }
            place.asked = nil
            return [PhonemeChunk(words: [], ending: ChunkEnding.none, pauseBefore: asked)]
        } catch let error as KokoroError { throw error } catch { throw broken("\(error)") }
    }

    /// What is said of a sentence in each call.
    private func chunks(_ offset: Int, _ text: Text, _ place: inout Place) throws -> [PhonemeChunk] {
        var chunks: [PhonemeChunk] = []
        for part in try items(invoke(parts, [.tuple(words(offset, text, &place))])).map(items) {
            let chunk = try chunk(part, &place)
            if chunk.isSpeakable {
                chunks.append(chunk)
                (place.asked, place.hasSpoken) = (nil, true)
            }
            if let seconds = try part.last.flatMap({ try field($0, "pause_s").number }), seconds > 0 { place.asked = (place.asked ?? 0) + seconds }
        }
        return chunks
    }

    private func chunk(_ part: [Value], _ place: inout Place) throws -> PhonemeChunk {
        let words = try part.map(word), rate = try part.first.flatMap { try field($0, "rate").number } ?? 1
        let voice: Text = if case .text(let name)? = try part.first.map({ try field($0, "voice") }) { name } else { Text([]) }
        let isEnd = try words.last.map { try invoke(paragraph, [.text(place.text), .int($0.place.upperBound)]).isTrue } ?? false
        let first = words.first { PhonemeChunk(words: [$0]).isSpeakable }
        var opens: ChunkEnding?
        if let opening, let first, case .text(let name) = try invoke(opening, [.text(place.text), .int(first.place.lowerBound)]) {
            opens = ChunkEnding(rawValue: name.string)
        }
        return PhonemeChunk(
            words: words, ending: isEnd ? .paragraph : nil, pauseBefore: place.asked, rate: rate, voice: voice.string, opening: opens)
    }

    /// Words of a sentence, as the rules give them.
    private func words(_ offset: Int, _ text: Text, _ place: inout Place) throws -> [Value] {
        let one = try invoke(sentence, [.int(offset), .text(text), .tuple(place.open.map(Value.text))] + place.around(offset, text.count))
        place.open = try items(field(field(one, "marked"), "open")).compactMap { if case .text(let tag) = $0 { tag } else { nil } }
        return try items(invoke(read, [.list(List([one]))])).flatMap { try items(field(items($0)[1], "words")) }
    }

    private func word(_ word: Value) throws -> SpokenWord {
        guard case .text(let written) = try field(word, "text"), case .text(let said) = try field(word, "phonemes") else { throw broken("no word") }
        let start = try field(word, "start").whole ?? 0, end = try field(word, "end").whole ?? 0, scalars = said.units.compactMap { Unicode.Scalar($0) }
        return SpokenWord(text: written.string, place: start..<max(start, end), phonemes: scalars, spaceFollows: try field(word, "space").isTrue)
    }

    /// The words of a whole text, as tuples of start, end, phonemes, and whether a space follows.
    fileprivate func tuples(_ text: Text) throws -> [Value] {
        var place = Place(text.string), found: [Value] = []
        while let (offset, sentence) = try place.next(cut) {
            found += try words(offset, sentence, &place).map { word in .tuple(try ["start", "end", "phonemes", "space"].map { try field(word, $0) }) }
        }
        return found
    }

    private func field(_ value: Value, _ name: String) throws -> Value {
        guard case .object(let object) = value else { throw broken("no object with \(name)") }
        let type = ObjectIdentifier(object.type)
        if fields[type] == nil { fields[type] = Dictionary(try object.type.slots.map { (try program.name($0.key), $0.value) }) { one, _ in one } }
        guard let slot = fields[type]?[name], slot < object.values.count else { throw broken("no \(name)") }
        return object.values[slot]
    }
}

/// The readers of other languages of the bundle, each opened at its first word. They remember short texts.
private final class LateReaders {
    private let bundle: URL
    private var readers: [String: RuleReader] = [:], known: [[Text]: Value] = [:]
    init(bundle: URL) { self.bundle = bundle }

    /// The words of a text and what is left out, which nobody asks for here; none for a language that the bundle does not read.
    func read(_ language: Value, _ text: Value) throws -> Value {
        guard case .text(let name) = language, case .text(let text) = text else { throw broken("no text to read") }
        if let found = known[[name, text]] { return found }
        let language = name.string, rules = bundle.appendingPathComponent("text/\(language).rules")
        guard readers[language] != nil || FileManager.default.fileExists(atPath: rules.path) else { return .none }
        if text.count == 0 { return .tuple([.tuple([]), .tuple([])]) }
        let reader = try readers[language] ?? RuleReader(bundle: bundle, language: language)
        readers[language] = reader
        let found = Value.tuple([.list(List(try reader.tuples(text))), .tuple([])])
        if known.count == 1000 { known = [:] }
        known[[name, text]] = found
        return found
    }
}

/// Letters to sounds, opened at the first word that nobody lists.
private final class LateNetwork {
    private let tables: TextTables
    private var network: LetterNetwork?, decoding: SoundDecoding?
    init(_ tables: TextTables) { self.tables = tables }

    func guess(_ word: Value, _ program: RuleProgram) throws -> Value {
        guard case .callable(let made) = try program.root("guess"), let type = (made as? TypeCall)?.type else { throw broken("no guess") }
        guard try invoke(program.root("speakable"), [word]).isTrue else { return .object(Instance(type, values: [.empty, .float(0)])) }
        let ids = try items(invoke(program.root("encode"), [word])).map { Int32($0.whole ?? 0) }
        let network = try self.network ?? LetterNetwork(tables), decoding = self.decoding ?? SoundDecoding(tables.rules.network)
        (self.network, self.decoding) = (network, decoding)
        let found = decoding.guess(network.logits(ids))
        return .object(Instance(type, values: [.text(Text(found.phonemes)), .float(found.confidence)]))
    }
}

/// CRC-32, as zip files have it.
func crc32(_ text: String) -> UInt32 { ~text.utf8.reduce(~0) { sum, byte in crcTable[Int((sum ^ UInt32(byte)) & 255)] ^ sum >> 8 } }

private let crcTable: [UInt32] = (0..<256).map { byte in (0..<8).reduce(UInt32(byte)) { value, _ in value >> 1 ^ (value & 1 == 0 ? 0 : 0xEDB8_8320) } }
