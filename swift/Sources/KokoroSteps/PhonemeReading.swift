/// A text that is phonemes already, cut into sentences and words.
///
/// A sentence ends behind . ! ? … and closing marks before white space, or with its line.
package struct PhonemeReading: Sendable {
    private let text: [Unicode.Scalar]
    package init(_ text: String) { self.text = Array(text.unicodeScalars) }

    /// The chunk behind `place`, in Unicode scalars, and where the next begins; nil at the end. Sentences with nothing but marks are skipped.
    package func sentence(from place: Int) -> (chunk: PhonemeChunk, next: Int)? {
        var start = place
        while let begin = text[start...].firstIndex(where: { !$0.properties.isWhitespace }) {
            let end = sentenceEnd(from: begin), words = words(begin..<end)
            let chunk = PhonemeChunk(words: words, ending: blankLineFollows(end) ? .paragraph : nil)
            if chunk.isSpeakable { return (chunk, end) }
            start = end
        }
        return nil
    }

    private func sentenceEnd(from begin: Int) -> Int {
        var place = begin
        while place < text.count, text[place] != "\n" {
            let mark = Marks.sentence.contains(text[place])
            place += 1
            guard mark, place < text.count, !Marks.sentence.contains(text[place]) else { continue }
            let behind = text[place...].firstIndex { !Marks.closing.contains($0) } ?? text.count
            if behind == text.count || text[behind].properties.isWhitespace { return behind }
        }
        return place
    }

    private func words(_ range: Range<Int>) -> [SpokenWord] {
        var found: [SpokenWord] = [], place = range.lowerBound
        while place < range.upperBound {
            if text[place].properties.isWhitespace {
                place += 1
                continue
            }
            let isMark = Marks.all.contains(text[place])
            let rest = text[(place + 1)..<range.upperBound]
            let end = isMark ? place + 1 : rest.firstIndex { Marks.all.contains($0) || $0.properties.isWhitespace } ?? range.upperBound
            let symbols = Array(text[place..<end]), spaced = end < text.count && text[end].properties.isWhitespace
            found.append(SpokenWord(text: String(String.UnicodeScalarView(symbols)), place: place..<end, phonemes: symbols, spaceFollows: spaced))
            place = end
        }
        return found
    }

    private func blankLineFollows(_ place: Int) -> Bool {
        text[place...].prefix { $0.properties.isWhitespace }.filter { $0 == "\n" }.count > 1
    }
}
