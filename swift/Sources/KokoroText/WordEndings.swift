/// What -s, -ed, -ing and contracted words sound like behind a stem, in American English, and which stems a word may have.
struct WordEndings: Sendable {
    private let voiceless: Set<Unicode.Scalar>, sibilants: Set<Unicode.Scalar>, flapsAfter: Set<Unicode.Scalar>, clitics: [String: String]

    init(_ rules: TextRules.Words) {
        func scalars(_ symbols: Set<String>) -> Set<Unicode.Scalar> { Set(symbols.compactMap(\.unicodeScalars.first)) }
        voiceless = scalars(rules.voiceless)
        sibilants = scalars(rules.sibilants)
        flapsAfter = scalars(rules.flapsAfter)
        clitics = rules.clitics
    }

    /// One of -s, -ed and -ing.
    enum Suffix: String, Sendable { case s, ed, ing }

    /// The stem's phonemes with an ending.
    func with(_ suffix: Suffix, _ stem: String) -> String {
        let scalars = Array(stem.unicodeScalars)
        guard let last = scalars.last else { return stem }
        let flaps = scalars.count > 1 && last == "t" && flapsAfter.contains(scalars[scalars.count - 2])
        let cut = String(String.UnicodeScalarView(scalars.dropLast()))
        switch suffix {
        case .s: return stem + (sibilants.contains(last) ? "ᵻz" : voiceless.contains(last) ? "s" : "z")
        case .ed where last == "d": return stem + "ᵻd"
        case .ed where last == "t": return scalars.count < 2 ? stem + "ɪd" : flaps ? cut + "Tᵻd" : stem + "ᵻd"
        case .ed: return stem + (voiceless.contains(last) ? "t" : "d")
        case .ing: return flaps ? cut + "Tɪŋ" : stem + "ɪŋ"
        }
    }

    /// Whether this may stand behind an apostrophe: s, d, ll, ve, re, m, em.
    func isClitic(_ text: String) -> Bool { ["s", "d"].contains(text.lowercased()) || clitics[text.lowercased()] != nil }

    /// The stem's phonemes with one of these; none where `clitic` is empty (the dogs').
    func with(clitic: String, _ stem: String) -> String {
        switch clitic.lowercased() {
        case "": stem
        case "s": with(.s, stem)
        case "d": stem + (stem.unicodeScalars.last.map { "td".unicodeScalars.contains($0) } ?? false ? "ᵻd" : "d")
        default: stem + (clitics[clitic.lowercased()] ?? "")
        }
    }

    /// Suffixes and stems in the order to try them: -s, -ed, -ing, the plain stem before the restored one.
    func stems(_ word: String) -> [(suffix: Suffix, stem: String)] {
        let letters = Array(word.utf8)
        guard letters.allSatisfy({ $0 < 128 }) else { return [] }
        return stemsOfS(letters).map { (.s, text($0)) } + stemsOfEd(letters).map { (.ed, text($0)) } + stemsOfIng(letters).map { (.ing, text($0)) }
    }

    private func text(_ letters: [UInt8]) -> String { String(decoding: letters, as: UTF8.self) }
    private func ends(_ word: [UInt8], _ ending: String) -> Bool { word.count >= ending.utf8.count && word.suffix(ending.utf8.count).elementsEqual(ending.utf8) }

    private func stemsOfS(_ word: [UInt8]) -> [[UInt8]] {
        guard word.count >= 3, ends(word, "s") else { return [] }
        var found: [[UInt8]] = []
        if word.count > 4, ends(word, "ies") { found.append(word.dropLast(3) + Array("y".utf8)) }
        if !ends(word, "ss") { found.append(word.dropLast(1)) }
        if word.count > 4, ends(word, "es") { found.append(word.dropLast(2)) }
        return found
    }

    private func stemsOfEd(_ word: [UInt8]) -> [[UInt8]] {
        guard word.count >= 4, ends(word, "ed") else { return [] }
        let plain = word.count > 4 && !ends(word, "eed")
        var found: [[UInt8]] = []
        if ends(word, "ied") { found.append(word.dropLast(3) + Array("y".utf8)) }
        if plain, isCluster(word.dropLast(2)) { found.append(word.dropLast(2)) }
        found.append(word.dropLast(1))
        if plain { found.append(word.dropLast(2)) }
        if plain, isDoubled(word.dropLast(2)) { found.append(word.dropLast(3)) }
        return found
    }

    private func stemsOfIng(_ word: [UInt8]) -> [[UInt8]] {
        guard word.count >= 5, ends(word, "ing") else { return [] }
        let stem = Array(word.dropLast(3)), restored = stem + Array("e".utf8)
        var found: [[UInt8]] = []
        if losesE(stem), !(stem.count > 4 && ends(stem, "er")) { found.append(restored) }
        if word.count > 5 { found.append(stem) }
        found.append(restored)
        if word.count > 5, isDoubled(stem) { found.append(Array(stem.dropLast(1))) }
        return found
    }

    private func isVowel(_ letter: UInt8, y: Bool) -> Bool { "aeiou".utf8.contains(letter) || (y && letter == UInt8(ascii: "y")) }

    /// Two consonants at the end, but not th.
    private func isCluster(_ stem: [UInt8]) -> Bool { stem.count > 1 && stem.suffix(2).allSatisfy { !isVowel($0, y: true) } && !ends(stem, "th") }

    /// A doubled consonant, or ck, before the ending.
    private func isDoubled(_ stem: [UInt8]) -> Bool {
        guard stem.count > 1, let last = stem.last else { return false }
        return ends(stem, "ck") || (last == stem[stem.count - 2] && "bcdgklmnprstvxz".utf8.contains(last))
    }

    /// Consonant, vowel, consonant, or th, at the end: a silent e was left out (hoping, breathing).
    private func losesE(_ stem: [UInt8]) -> Bool {
        if ends(stem, "th") { return true }
        guard stem.count > 1, let last = stem.last else { return false }
        let closed = !"aeiouwxy".utf8.contains(last) && isVowel(stem[stem.count - 2], y: true)
        return closed && (stem.count == 2 || !isVowel(stem[stem.count - 3], y: false))
    }
}
