/// Step 3: what a voice gives to an utterance of n phonemes.
package struct VoiceStyle: Equatable, Sendable {
    /// [128], for the vocoder and for the encoder; and what the voice adds to predicted statistics [2R], where a layout predicts them.
    package let decoder: [Float], prosody: [Float], statistics: [Float]

    /// `row` [256 + 2R]: row n - 1 of the voice's table, and the statistics behind it.
    package init(row: [Float]) throws(KokoroError) {
        let width = Contract.styleWidth
        guard row.count >= 2 * width else { throw .wrongSize("a row of a voice", found: row.count, wanted: 2 * width) }
        try row.requireFinite("a row of a voice")
        decoder = Array(row[..<width])
        prosody = Array(row[width..<(2 * width)])
        statistics = Array(row[(2 * width)...])
    }

    /// The row of the table [510, 1, 256] that n phonemes take.
    package static func rowIndex(phonemes: Int) throws(KokoroError) -> Int {
        guard phonemes > 0 else { throw .nothingToSay }
        guard phonemes <= Contract.voiceRows else { throw .tooManyPhonemes(phonemes, most: Contract.voiceRows) }
        return phonemes - 1
    }
}
