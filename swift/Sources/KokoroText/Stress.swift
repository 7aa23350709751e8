/// Stress marks of a word's phonemes, moved as misaki's users know it.
struct Stress: Sendable {
    private let vowels: Set<Unicode.Scalar>, heavy: Set<Unicode.Scalar>
    static let primary: Unicode.Scalar = "ˈ", secondary: Unicode.Scalar = "ˌ"

    init(_ rules: TextRules.Words) {
        vowels = Set(rules.vowels.compactMap(\.unicodeScalars.first))
        heavy = Set(rules.heavy.compactMap(\.unicodeScalars.first))
    }

    /// Levels: 0 and -0.5 no primary, 0.5 and 1 secondary where there was none (1 also lifts a secondary to primary), 2 primary.
    func moved(_ phonemes: String, to level: Double) -> String {
        let hasPrimary = phonemes.unicodeScalars.contains(Self.primary), hasSecondary = phonemes.unicodeScalars.contains(Self.secondary)
        if (level == 0 || level == -0.5) && hasPrimary {
            return replaced(replaced(phonemes, Self.secondary, nil), Self.primary, Self.secondary)
        }
        if level >= 0, level <= 1, !hasPrimary, !hasSecondary { return marked(phonemes, Self.secondary) }
        if level >= 1, !hasPrimary { return hasSecondary ? replaced(phonemes, Self.secondary, Self.primary) : marked(phonemes, Self.primary) }
        return phonemes
    }

    /// Whether the first sound is a vowel.
    func startsWithVowel(_ phonemes: String) -> Bool {
        phonemes.unicodeScalars.first { $0 != Self.primary && $0 != Self.secondary }.map(vowels.contains) ?? false
    }

    /// One for each symbol, two for diphthongs and affricates.
    func weight(_ phonemes: String) -> Int { phonemes.unicodeScalars.reduce(0) { $0 + (heavy.contains($1) ? 2 : 1) } }

    private func marked(_ phonemes: String, _ mark: Unicode.Scalar) -> String {
        var scalars = Array(phonemes.unicodeScalars)
        if let place = scalars.firstIndex(where: vowels.contains) { scalars.insert(mark, at: place) }
        return String(String.UnicodeScalarView(scalars))
    }

    private func replaced(_ phonemes: String, _ mark: Unicode.Scalar, _ other: Unicode.Scalar?) -> String {
        String(String.UnicodeScalarView(phonemes.unicodeScalars.compactMap { $0 == mark ? other : $0 }))
    }
}
