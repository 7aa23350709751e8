/// A word or a mark of the text, with what is said of it.
package struct SpokenWord: Equatable, Sendable {
    /// As it is written.
    package var text: String
    /// Its place in the text, in Unicode scalars.
    package var place: Range<Int>
    /// In the model's symbols.
    package var phonemes: [Unicode.Scalar]
    /// Whether white space follows it.
    package var spaceFollows: Bool

    package init(text: String, place: Range<Int>, phonemes: [Unicode.Scalar], spaceFollows: Bool) {
        (self.text, self.place, self.phonemes, self.spaceFollows) = (text, place, phonemes, spaceFollows)
    }
}

/// How a chunk ends, which decides the silence behind it; or what the next one opens, a chapter or a scene.
package enum ChunkEnding: String, Sendable {
    case chapter, scene, paragraph, sentence, clause, none

    /// Seconds of silence at speed 1, beside what the model itself leaves at both ends.
    package var pauseSeconds: Double {
        switch self {
        case .chapter: 1.5
        case .scene: 1
        case .paragraph: 0.5
        case .sentence: 0.2
        case .clause: 0.08
        case .none: 0
        }
    }

    /// Whole samples of silence; a speed of 2 halves them.
    package func pauseSamples(speed: Double) -> Int { Int(pauseSeconds * Double(Contract.sampleRateHz) / speed + 0.5) }

    /// By the last mark, looked for through closing quotes and brackets.
    package init(phonemes: some BidirectionalCollection<Unicode.Scalar>) {
        let last = phonemes.last { !Marks.closing.contains($0) && $0 != " " }
        self = last.map { Marks.sentence.contains($0) ? .sentence : Marks.clause.contains($0) ? .clause : .none } ?? .none
    }
}

/// The punctuation of the model's vocabulary.
package enum Marks {
    package static let sentence: Set<Unicode.Scalar> = [".", "!", "?", "…"], clause: Set<Unicode.Scalar> = [",", ";", ":", "—"]
    package static let closing: Set<Unicode.Scalar> = ["\"", ")", "”"], opening: Set<Unicode.Scalar> = ["(", "“"]
    package static let all = sentence.union(clause).union(closing).union(opening)
}

/// Words that are said in one call.
package struct PhonemeChunk: Equatable, Sendable {
    package let words: [SpokenWord]
    /// The words' phonemes, with one space where white space follows a word, and none at the end.
    package let phonemes: [Unicode.Scalar]
    /// Where the phonemes of each word begin.
    package let places: [Int]
    package let ending: ChunkEnding
    /// Seconds of silence before it that the text asks for, in the place of what the chunk before leaves.
    package let pauseBefore: Double?
    /// Of the pace that was asked for: 2 is twice as fast.
    package let rate: Double
    /// Asked for by the text; empty where it is not.
    package let voice: String
    /// `chapter` of a heading, `scene` behind a scene break.
    package let opening: ChunkEnding?

    /// Without `ending`, the last mark decides.
    package init(words: [SpokenWord], ending: ChunkEnding? = nil, pauseBefore: Double? = nil, rate: Double = 1, voice: String = "", opening: ChunkEnding? = nil) {
        var joined: [Unicode.Scalar] = [], places: [Int] = []
        for word in words {
            places.append(joined.count)
            joined += word.phonemes
            if word.spaceFollows { joined.append(" ") }
        }
        while joined.last == " " { joined.removeLast() }
        (self.words, self.places, self.pauseBefore, self.rate, self.voice, phonemes) = (words, places, pauseBefore, rate, voice, joined)
        let last = ending ?? ChunkEnding(phonemes: joined)
        // a heading is a paragraph, with or without a blank line behind it
        (self.opening, self.ending) = (opening, opening == .chapter && last == .none ? .paragraph : last)
    }

    /// Whether a chapter begins with it: of headings behind one another the first opens it.
    package func beginsChapter(after before: PhonemeChunk?) -> Bool { opening == .chapter && before?.opening != .chapter }

    /// Whether anything but marks and white space is in it.
    package var isSpeakable: Bool { Self.isSpeakable(phonemes[...]) }

    /// A chunk of fewer phonemes shares a call with such neighbours.
    package var isShort: Bool { 1..<12 ~= phonemes.count }

    /// The chunk itself, or its parts of at most `longest` phonemes.
    package func cut(longest: Int) throws(KokoroError) -> [PhonemeChunk] {
        guard phonemes.count > longest else { return [self] }
        var parts: [PhonemeChunk] = []
        for half in try halves() { parts += try half.cut(longest: longest) }
        return parts
    }

    /// Two parts of about half the phonemes each: at a mark near the middle, else between words, else inside the longest word.
    ///
    /// Throws `utteranceTooLong` for a single phoneme.
    package func halves() throws(KokoroError) -> [PhonemeChunk] {
        let candidates = words.indices.dropFirst().filter { index in
            words[index - 1].spaceFollows && Self.isSpeakable(phonemes[..<places[index]]) && Self.isSpeakable(phonemes[places[index]...])
        }
        if let best = candidates.min(by: { cost($0) < cost($1) }) { return parts(words[..<best], words[best...]) }
        guard let longest = words.indices.max(by: { words[$0].phonemes.count < words[$1].phonemes.count }),
              words[longest].phonemes.count > 1
        else { throw .utteranceTooLong(phonemes.count, most: 1, unit: "phonemes of one sound") }
        let middle = words[longest].phonemes.count / 2
        var left = words[longest], right = words[longest]
        left.phonemes = Array(left.phonemes[..<middle])
        if left.phonemes.last == " " { left.phonemes.removeLast() }
        left.spaceFollows = false
        right.phonemes = Array(right.phonemes[middle...].drop { $0 == " " })
        return parts(words[..<longest] + [left], [right] + words[(longest + 1)...])
    }

    private func parts(_ left: some Sequence<SpokenWord>, _ right: some Sequence<SpokenWord>) -> [PhonemeChunk] {
        [PhonemeChunk(words: Array(left), pauseBefore: pauseBefore, rate: rate, voice: voice, opening: opening),
         PhonemeChunk(words: Array(right), ending: ending, rate: rate, voice: voice)]
    }

    /// Distance of a cut from the middle, 0 to 1; one that is not at a mark costs half more, and where no phrase begins behind it more again.
    private func cost(_ index: Int) -> Double {
        let place = places[index], count = phonemes.count
        let distance = Double(abs(2 * place - count)) / Double(count)
        if ChunkEnding(phonemes: phonemes[..<place]) != .none { return distance }
        let joint = words[index - 1].phonemes.contains("ˈ") ? (words[index].phonemes.contains("ˈ") ? 0.1 : 0) : 0.3
        return distance + 0.5 + joint
    }

    private static func isSpeakable(_ phonemes: ArraySlice<Unicode.Scalar>) -> Bool {
        phonemes.contains { !Marks.all.contains($0) && !$0.properties.isWhitespace }
    }
}
