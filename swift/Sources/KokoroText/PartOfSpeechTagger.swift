import KokoroSteps

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Probabilities of part-of-speech tags for one word of a sentence, by a maximum-entropy model over hashed features.
struct PartOfSpeechTagger: Sendable {
    private static let edge = "#"
    private let tables: TextTables
    private var rules: TextRules.Tagger { tables.rules.tagger }

    init(_ tables: TextTables) { self.tables = tables }

    /// Of `words[at]` among the tags that it, or its form, can have, in their order.
    func probabilities(_ words: [String], at: Int) -> [(tag: String, share: Double)] {
        let lower = words[at].lowercased(), allowed = rules.heteronyms[lower] ?? possible(lower)
        let known = rules.heteronyms[lower] != nil && !rules.irregular.contains(lower)
        var sums = [Int](repeating: 0, count: rules.tags.count)
        for feature in features(words, at: at, known: known) {
            guard let row = tables.row(of: crc32(feature), in: "tagger.features") else { continue }
            for (tag, weight) in tables.bytes("tagger.weights", row: row).enumerated() { sums[tag] += Int(weight) }
        }
        let bonus = lacksVerb(words, at: at) ? rules.verbless : 0
        let scores = allowed.map { tag in
            (rules.tags.firstIndex(of: tag).map { Double(sums[$0]) } ?? 0) * rules.scale + (rules.finite.contains(tag) ? bonus : 0)
        }
        let top = scores.reduce(-.infinity, max), shares = scores.map { exp($0 - top) }, total = shares.reduce(0, +)
        return zip(allowed, shares).map { ($0, $1 / total) }
    }

    /// The most probable tag; the first of equals.
    func tag(_ words: [String], at: Int) -> String {
        let shares = probabilities(words, at: at)
        return shares.dropFirst().reduce(shares[0]) { $1.share > $0.share ? $1 : $0 }.tag
    }

    /// The ambiguity class of a word: letters of the kinds that it can be.
    func kind(_ word: String) -> String {
        let lower = word.lowercased()
        if let stored = rules.classes[lower] ?? rules.pronouns[lower] { return stored }
        guard let first = word.unicodeScalars.first, isLetterOrDigit(first) else { return String(word.unicodeScalars.prefix(1)) }
        if first.properties.numericType != nil { return "0" }
        if let found = rules.contractions.first(where: { lower.hasSuffix($0[0]) }) { return found[1] }
        if first.properties.isUppercase { return "n" }
        return rules.endings.first { lower.hasSuffix($0[0]) }?[1] ?? "n"
    }

    private func isLetterOrDigit(_ symbol: Unicode.Scalar) -> Bool { symbol.properties.isAlphabetic || symbol.properties.numericType != nil }

    private func lacksVerb(_ words: [String], at: Int) -> Bool {
        guard let last = words.last, rules.ends.contains(last) else { return false }
        return !words.indices.contains { $0 != at && kind(words[$0]).contains { rules.finiteLetters.contains(String($0)) } }
    }

    private func possible(_ word: String) -> [String] {
        if rules.irregular.contains(word) { return rules.past }
        if let forms = rules.forms[word] { return forms }
        for ending in ["ing", "ed", "s"] where word.hasSuffix(ending) && word.utf8.count > ending.utf8.count + 2 {
            if !["ss", "eed", "us", "is"].contains(where: { word.hasSuffix($0) }) { return rules.forms[ending] ?? rules.base }
        }
        return rules.base
    }

    private func features(_ words: [String], at: Int, known: Bool) -> [String] {
        let lower = (at - 3...at + 3).map { words.indices.contains($0) ? words[$0].lowercased() : Self.edge }
        let kinds = (at - 3...at + 3).map { words.indices.contains($0) && words[$0].lowercased() != Self.edge ? kind(words[$0]) : Self.edge }
        let (w2, w1, word, v1, v2) = (lower[1], lower[2], lower[3], lower[4], lower[5])
        let (k3, k2, k1, n1, n2, n3) = (kinds[0], kinds[1], kinds[2], kinds[4], kinds[5], kinds[6])
        let (helper, near, times, finite) = clause(words, at: at)
        var found = [
            "a\(w1)", "b\(v1)", "c\(w2)", "d\(v2)", "e\(w2) \(w1)", "f\(w1) \(v1)", "g\(v1) \(v2)",
            "h\(k1)", "i\(n1)", "j\(k2)", "k\(n2)", "l\(k2) \(k1)", "m\(k1) \(n1)", "n\(n1) \(n2)", "o\(k3) \(k2) \(k1)", "p\(k2) \(k1) \(n1)",
        ]
        found += [
            "q\(k1) \(n1) \(n2)", "r\(w1) \(n1)", "s\(k1) \(v1)", "t\(w1) \(k2)", "u\(k1) \(n1) \(finite)", "v\(helper) \(near)",
            "w\(helper) \(k1) \(n1)", "x\(times) \(helper)", "y\(finite) \(n1)", "z\(n1) \(n2) \(n3)", "A\(k3) \(k2) \(k1) \(finite)",
            "B\(form(word)) \(k1)", "C\(form(word)) \(n1)",
        ]
        if known { found += ["D\(word)", "E\(word) \(w1)", "F\(word) \(v1)", "G\(word) \(k1)", "H\(word) \(n1)", "I\(word) \(helper)"] }
        return found
    }

    private func form(_ word: String) -> String { ["ing", "ed", "ate", "ates", "s"].first { word.hasSuffix($0) } ?? "" }

    /// The last auxiliary before the word and how far it is, a word of time in the sentence, and how many other words are surely finite.
    private func clause(_ words: [String], at: Int) -> (helper: String, near: String, times: String, finite: String) {
        var helper = Self.edge, near = "", times = "", finite = 0
        for index in stride(from: at - 1, to: max(-1, at - rules.reach), by: -1) {
            let word = words[index].lowercased()
            if rules.stops.contains(word) { break }
            if rules.auxiliaries.contains(word) {
                (helper, near) = (word, String(min(at - index, 4)))
                break
            }
        }
        for index in words.indices where index != at {
            if ["z", "d", "v", "M", "dv", "vd", "de"].contains(kind(words[index])) { finite += 1 }
            if rules.times.contains(words[index].lowercased()) { times = words[index].lowercased() }
        }
        return (helper, near, times, String(min(finite, 2)))
    }
}

/// CRC-32 of a text's UTF-8, as zlib has it.
func crc32(_ text: String) -> UInt32 {
    ~text.utf8.reduce(~0) { sum, byte in
        (0..<8).reduce(sum ^ UInt32(byte)) { value, _ in value >> 1 ^ (value & 1 == 0 ? 0 : 0xEDB8_8320) }
    }
}
