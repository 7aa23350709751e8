/// Steps 1 and 2: phonemes to the numbers that the encoder reads.
package struct Vocabulary: Sendable {
    /// Keys are Unicode scalars: Swift's `Character` would join a combining mark with the letter before it.
    private let numbers: [Unicode.Scalar: Int32]

    /// `numbers`: of each symbol, as the bundle's vocabulary.json has them.
    package init(_ numbers: [Unicode.Scalar: Int32]) { self.numbers = numbers }

    /// Whether the model was trained on this symbol.
    package func contains(_ symbol: Unicode.Scalar) -> Bool { numbers[symbol] != nil }

    /// Step `ids`: n phonemes to [n + 2], with the boundary token at both ends.
    ///
    /// Throws `nothingToSay`, `tooManyPhonemes`, or `unknownSymbol`: a symbol is never dropped.
    package func ids(_ phonemes: [Unicode.Scalar]) throws(KokoroError) -> [Int32] {
        guard phonemes.contains(where: { !$0.properties.isWhitespace }) else { throw .nothingToSay }
        guard phonemes.count <= Contract.mostPhonemes else { throw .tooManyPhonemes(phonemes.count, most: Contract.mostPhonemes) }
        var ids = [Contract.boundaryID]
        for (place, symbol) in phonemes.enumerated() {
            guard let number = numbers[symbol] else { throw .unknownSymbol(symbol, place: place) }
            ids.append(number)
        }
        return ids + [Contract.boundaryID]
    }
}

/// The lengths that a package takes, rising; none where it takes any length.
package struct Buckets: Equatable, Sendable {
    /// In tokens or frames.
    package let lengths: [Int]

    /// An empty list: every length is taken as it is.
    package init(_ lengths: [Int]) { self.lengths = lengths }

    /// The smallest length that holds `count`. Throws `utteranceTooLong`.
    package func smallest(holding count: Int, unit: String) throws(KokoroError) -> Int {
        guard let longest = lengths.last else { return count }
        guard let found = lengths.first(where: { $0 >= count }) else { throw .utteranceTooLong(count, most: longest, unit: unit) }
        return found
    }
}

/// Step `pad`: ids [n + 2] to `input_ids` [T]; -1 behind the last marks what is no token.
package func paddedTokens(_ ids: [Int32], to width: Int) -> [Int32] {
    ids + [Int32](repeating: Contract.paddingID, count: max(0, width - ids.count))
}

/// Throws `speedOutOfRange` unless the encoder was built for it.
package func checkedSpeed(_ speed: Double) throws(KokoroError) -> Double {
    guard Contract.speeds.contains(speed) else { throw .speedOutOfRange(speed) }
    return speed
}
