import Foundation
import KokoroSteps

/// What a word alone sounds like.
public struct WordReading: Equatable, Sendable {
    /// In the model's symbols; of a heteronym the first sense. Empty: nothing of it has a sound.
    public let phonemes: String
    /// `lexicon`, `morphology`, `neural` or `spelled`.
    public let source: String
    /// Share of such answers that are right, 0 to 1.
    public let confidence: Double
    /// Phonemes by part of speech where the sentence decides; "" there: letter by letter.
    public let senses: [String: String]
}

/// American English words to phonemes: the bundle's lexicon, a listed stem with its ending, the network, letters.
public struct WordReader: Sendable {
    let tables: TextTables, stress: Stress, endings: WordEndings
    private let lexicon: LexiconTable, network: LetterNetwork, decoding: SoundDecoding

    /// `folder`: a bundle's. Throws `badFile`; `unsupported` for a dialect that this package does not read.
    public init(bundle folder: URL, dialect: String = "us") throws(KokoroError) {
        guard dialect == "us" else { throw .unsupported("text in the dialect \(dialect): only American English (us) is read; give phonemes") }
        tables = try TextTables(folder: folder.appendingPathComponent("text"), dialect: dialect)
        lexicon = try LexiconTable(file: folder.appendingPathComponent("lexicon/\(dialect).tsv"))
        network = try LetterNetwork(tables)
        decoding = SoundDecoding(tables.rules.network)
        stress = Stress(tables.rules.words)
        endings = WordEndings(tables.rules.words)
    }

    /// Letters, apostrophes and hyphens, in any case.
    public func read(_ word: String) -> WordReading {
        let plain = word.replacingOccurrences(of: "’", with: "'")
        if let found = listed(plain) ?? built(plain) { return found }
        let parts = plain.split(whereSeparator: { "-‐‑–_/".contains($0) }).map(String.init).filter { !$0.allSatisfy { $0 == "'" } }
        if parts.count > 1 { return compound(parts) }
        if let mark = plain.lastIndex(of: "'"), mark != plain.startIndex {
            let clitic = String(plain[plain.index(after: mark)...])
            if clitic.isEmpty || endings.isClitic(clitic) { return ended(read(String(plain[..<mark]))) { endings.with(clitic: clitic, $0) } }
        }
        if isPluralAcronym(plain) { return ended(read(String(plain.dropLast()))) { endings.with(.s, $0) } }
        let guess = guessed(plain)
        return guess.phonemes.isEmpty ? spelled(plain) : WordReading(phonemes: guess.phonemes, source: "neural", confidence: guess.confidence, senses: [:])
    }

    /// Letter by letter, the last with the stress; a space after every eighth.
    public func spelled(_ text: String) -> WordReading {
        let names = text.uppercased().compactMap { tables.rules.words.letters[String($0)] }
        let groups = stride(from: 0, to: names.count, by: 8).map { start -> String in
            let weak = names[start..<min(start + 8, names.count)].map { stress.moved($0, to: 0) }.joined()
            guard let last = weak.unicodeScalars.lastIndex(of: Stress.secondary) else { return weak }
            return String(weak.unicodeScalars[..<last]) + "ˈ" + String(weak.unicodeScalars[weak.unicodeScalars.index(after: last)...])
        }
        return WordReading(phonemes: groups.joined(separator: " "), source: "spelled", confidence: 0, senses: [:])
    }

    /// The word as it is written; else in small letters, or with a capital, and with the stress of its own capitals.
    private func listed(_ word: String) -> WordReading? {
        if let entry = lexicon.entry(word) { return reading(entry, as: word, listedAs: word) }
        let lower = word.lowercased()
        if isPluralAcronym(word) { return nil }
        for form in [lower, capitalized(lower)] where form != word {
            if word == lower || form == lower || word == word.uppercased(), let entry = lexicon.entry(form) { return reading(entry, as: word, listedAs: form) }
        }
        return nil
    }

    private func reading(_ entry: LexiconTable.Entry, as word: String, listedAs form: String) -> WordReading {
        let lower = word == word.lowercased(), shouted = word == word.uppercased() && word.count > 1
        let level = lower || form == word ? nil : shouted ? tables.rules.words.stress.capitals : tables.rules.words.stress.capitalised
        func said(_ phonemes: String) -> String { level.map { stress.moved(phonemes, to: $0) } ?? phonemes }
        let senses = entry.senses.filter { !$0.tag.isEmpty }.map { ($0.tag, said($0.phonemes)) }
        let confidence = entry.list == "s" ? 0.445 : entry.list == "c" ? 0.694 : 1
        return WordReading(
            phonemes: said(entry.phonemes), source: entry.list == "m" ? "morphology" : "lexicon", confidence: confidence,
            senses: Dictionary(senses, uniquingKeysWith: { first, _ in first }))
    }

    /// A listed stem with 's, -s, -ed or -ing; stems that people edited before those of espeak-ng.
    private func built(_ word: String) -> WordReading? {
        if let mark = word.lastIndex(of: "'"), mark != word.startIndex {
            let stem = String(word[..<mark]), clitic = String(word[word.index(after: mark)...])
            guard clitic.isEmpty || endings.isClitic(clitic), let found = listed(stem) ?? built(stem) else { return nil }
            return ended(found, source: "morphology") { endings.with(clitic: clitic, $0) }
        }
        let lower = word.lowercased()
        for edited in [true, false] {
            for (suffix, stem) in endings.stems(lower) where stem.count > 1 {
                guard let entry = lexicon.entry(stem) ?? lexicon.entry(capitalized(stem)), !edited || "og".contains(entry.list) else { continue }
                let full = entry.senses.first { $0.tag == "None" }?.phonemes ?? entry.phonemes
                guard !full.isEmpty else { continue }
                let said = endings.with(suffix, full), level = tables.rules.words.stress
                let moved = word == lower ? said : stress.moved(said, to: word == word.uppercased() ? level.capitals : level.capitalised)
                return WordReading(phonemes: moved, source: "morphology", confidence: 1, senses: [:])
            }
        }
        return nil
    }

    private func ended(_ stem: WordReading, source: String? = nil, _ change: (String) -> String) -> WordReading {
        WordReading(phonemes: stem.phonemes.isEmpty ? "" : change(stem.phonemes), source: source ?? stem.source, confidence: stem.confidence, senses: [:])
    }

    /// Parts said as one word: half of them lose their primary stress.
    private func compound(_ parts: [String]) -> WordReading {
        let spoken = parts.map { ($0, read($0)) }.filter { !$0.1.phonemes.isEmpty }
        var sounds = spoken.map(\.1.phonemes)
        if let first = parts.first, let prefix = tables.rules.words.prefixes[first.lowercased()], !sounds.isEmpty { sounds[0] = prefix }
        let stressed = sounds.map { $0.unicodeScalars.contains(Stress.primary) }
        var weak: [Int] = []
        if sounds.count == 2, spoken[0].0.count == 1 {
            weak = [1]
        } else if sounds.count > 1, stressed.filter({ $0 }).count > (sounds.count + 1) / 2 {
            let order = sounds.indices.sorted { one, other in
                if stressed[one] != stressed[other] { return !stressed[one] }
                let weights = (stress.weight(sounds[one]), stress.weight(sounds[other]))
                return weights.0 == weights.1 ? one < other : weights.0 < weights.1
            }
            weak = Array(order.prefix(sounds.count / 2))
        }
        for place in weak { sounds[place] = stress.moved(sounds[place], to: -0.5) }
        let worst = spoken.map(\.1).min { $0.confidence < $1.confidence }
        return WordReading(phonemes: sounds.joined(), source: worst?.source ?? "spelled", confidence: worst?.confidence ?? 0, senses: [:])
    }

    /// What the network says, or nothing where it may not try.
    private func guessed(_ word: String) -> Guess {
        let rules = tables.rules.network, letters = Array(word.lowercased().decomposedStringWithCompatibilityMapping.unicodeScalars.filter {
            $0.properties.generalCategory != .nonspacingMark
        })
        let alphabet = Array(rules.letters.unicodeScalars)
        let ids = letters.compactMap { letter in alphabet.firstIndex(of: letter).map { rules.firstLetterID + Int32($0) } }
        let shouted = word == word.uppercased() && word.count <= tables.rules.words.acronym
        guard ids.count == letters.count, letters.count > 1, letters.count <= rules.mostLetters, !shouted, isSpeakable(letters) else {
            return Guess(phonemes: "", confidence: 0)
        }
        return decoding.guess(network.logits([1] + ids))
    }

    /// A vowel letter, and no more consonants in a row or at the beginning than English has.
    private func isSpeakable(_ letters: [Unicode.Scalar]) -> Bool {
        var longest = 0, run = 0, onset: Int?
        for letter in letters {
            let isVowel = "aeiouy".unicodeScalars.contains(letter), isConsonant = !isVowel && letter != "'" && letter != "-"
            run = isConsonant ? run + 1 : 0
            longest = max(longest, run)
            if onset == nil, !isConsonant { onset = letters.prefix { !"aeiouy'-".unicodeScalars.contains($0) }.count }
        }
        let rules = tables.rules.network
        return letters.contains { "aeiouy".unicodeScalars.contains($0) } && longest <= rules.longestRun && (onset ?? 0) <= rules.longestOnset
    }

    private func isPluralAcronym(_ word: String) -> Bool {
        word.count > 2 && word.hasSuffix("s") && word.dropLast().contains { $0.isLetter } && word.dropLast() == word.dropLast().uppercased()
    }

    private func capitalized(_ word: String) -> String { word.prefix(1).uppercased() + word.dropFirst() }
}
