import Foundation
import KokoroSteps

/// American English that is written in words: sentences, marks, small words and heteronyms.
///
/// Digits, symbols and abbreviations have to be written out first; `sentence(from:)` throws `needsNormalization` at the first.
public struct PlainTextReading: SentenceSource {
    private let text: [Unicode.Scalar], reader: WordReader, tagger: PartOfSpeechTagger

    public init(_ text: String, reader: WordReader) {
        self.text = Array(text.unicodeScalars)
        self.reader = reader
        tagger = PartOfSpeechTagger(reader.tables)
    }

    /// The next sentence that holds a word, and where the one behind it begins.
    public func sentence(from place: Int) throws(KokoroError) -> (chunk: PhonemeChunk, next: Int)? {
        var start = place
        while let begin = text[start...].firstIndex(where: { !$0.properties.isWhitespace }) {
            let tokens = try tokens(from: begin), end = tokens.last?.place.upperBound ?? text.count
            let blankLine = text[end...].prefix { $0.properties.isWhitespace }.filter { $0 == "\n" }.count > 1
            let chunk = PhonemeChunk(words: spoken(tokens), ending: blankLine ? .paragraph : nil)
            if chunk.isSpeakable { return (chunk, end) }
            start = end
        }
        return nil
    }

    private struct Token {
        let text: String, place: Range<Int>, isMark: Bool, spaceFollows: Bool
    }

    /// Words and marks up to the sentence's end: . ! ? … and closing marks before white space, or a blank line.
    private func tokens(from begin: Int) throws(KokoroError) -> [Token] {
        var found: [Token] = [], place = begin, ended = false
        while place < text.count {
            let symbol = text[place]
            if symbol.properties.isWhitespace {
                let space = text[place...].prefix { $0.properties.isWhitespace }
                if ended || space.filter({ $0 == "\n" }).count > 1 { break }
                place = space.endIndex
                continue
            }
            let mark = mark(symbol), end = mark == nil ? wordEnd(from: place) : place + 1
            guard mark != nil || end > place else { throw .needsNormalization(run(from: place), place: place) }
            let word = mark.map { String($0) } ?? plain(text[place..<end])
            if mark == nil, end < text.count, text[end] == ".", reader.tables.rules.words.abbreviations.contains(word.lowercased()) {
                throw .needsNormalization(word + ".", place: place)
            }
            ended = mark.map { Marks.sentence.contains($0) || (ended && Marks.closing.contains($0)) } ?? false
            found.append(Token(text: word, place: place..<end, isMark: mark != nil, spaceFollows: end < text.count && text[end].properties.isWhitespace))
            place = end
        }
        return found
    }

    /// As the vocabulary has it: straight quotes stay, what it lacks is no mark.
    private func mark(_ symbol: Unicode.Scalar) -> Unicode.Scalar? { Marks.all.contains(symbol) ? symbol : symbol == "–" ? "—" : nil }

    /// Letters, with apostrophes and hyphens between them.
    private func wordEnd(from start: Int) -> Int {
        var end = start
        while end < text.count {
            let inner = end + 1 < text.count && text[end + 1].properties.isAlphabetic && "'’-‐‑".unicodeScalars.contains(text[end])
            let last = end > start && (text[end] == "'" || text[end] == "’") && text[end - 1] == "s"
            guard text[end].properties.isAlphabetic || (inner && (end > start || text[end] != "-")) || last else { break }
            end += 1
        }
        if end < text.count, text[end].properties.numericType != nil { return start }  // A4, mp3
        return end
    }

    private func plain(_ scalars: ArraySlice<Unicode.Scalar>) -> String {
        String(String.UnicodeScalarView(scalars.map { $0 == "’" ? "'" : $0 == "‐" || $0 == "‑" ? "-" : $0 }))
    }

    private func run(from place: Int) -> String { String(String.UnicodeScalarView(text[place...].prefix { !$0.properties.isWhitespace }.prefix(40))) }

    /// From the end: a small word's form hangs on what follows it.
    private func spoken(_ tokens: [Token]) -> [SpokenWord] {
        let words = tokens.map(\.text), rules = reader.tables.rules.words
        var found: [SpokenWord] = [], vowel: Bool?, following = ""
        for (place, token) in tokens.enumerated().reversed() {
            var phonemes = token.text
            if token.isMark {
                if rules.pauses.contains(token.text) { (vowel, following) = (nil, "") }
            } else {
                let reading = reader.read(token.text)
                phonemes = weak(token.text, tokens, place, vowel, following) ?? sense(reading, words, place, vowel, following)
                (vowel, following) = phonemes.isEmpty ? (vowel, following) : (reader.stress.startsWithVowel(phonemes), token.text.lowercased())
            }
            guard !phonemes.isEmpty else { continue }
            found.append(SpokenWord(
                text: String(String.UnicodeScalarView(text[token.place])), place: token.place, phonemes: Array(phonemes.unicodeScalars), spaceFollows: token.spaceFollows))
        }
        return found.reversed()
    }

    /// The form of a small word before a pause, a consonant or a vowel; nil where the lexicon's holds.
    private func weak(_ word: String, _ tokens: [Token], _ place: Int, _ vowel: Bool?, _ following: String) -> String? {
        let lower = word.lowercased(), rules = reader.tables.rules.words
        if word == "in", rules.afterParticle.contains(following) { return "ˈɪn" }
        if lower == "to", following == "a" || following == "an" { return "tə" }
        let opens = place == 0 || tokens[place - 1].isMark
        guard let forms = rules.weak[lower], forms.count == 3, word != "i", !(word == "A" && !opens), !(lower == "am" && word != "am") else { return nil }
        return forms[vowel.map { $0 ? 2 : 1 } ?? 0]
    }

    /// A heteronym by its part of speech; letters where the word is written in capitals and an entry says so.
    private func sense(_ reading: WordReading, _ words: [String], _ place: Int, _ vowel: Bool?, _ following: String) -> String {
        let senses = reading.senses, word = words[place], shouted = word.count > 1 && word == word.uppercased()
        guard senses.count > 1 else { return reading.phonemes }
        if vowel == nil, let paused = senses["None"] { return paused }
        if word.lowercased() == "used", following != "to" { return reading.phonemes }
        let keys = senses.filter { $0.key != "None" }
        guard keys.count > 1 else { return reading.phonemes }
        if keys.values.contains("") { return shouted ? reader.spelled(word).phonemes : reading.phonemes }
        var points: [String: Double] = [:]
        for (tag, share) in tagger.probabilities(words, at: place) { points[key(tag, keys), default: 0] += share }
        let best = points.max { ($0.value, $1.key) < ($1.value, $0.key) }?.key ?? "DEFAULT"
        return keys[best] ?? reading.phonemes
    }

    /// The key of a Penn tag. VBP is never taken: misaki's lists give the past form there.
    private func key(_ tag: String, _ keys: [String: String]) -> String {
        if tag != "vbp", keys[tag.uppercased()] != nil { return tag.uppercased() }
        let parent = ["n": "NOUN", "v": "VERB", "j": "ADJ", "r": "ADV"][String(tag.prefix(1))] ?? "DEFAULT"
        return keys[parent] == nil ? "DEFAULT" : parent
    }
}
