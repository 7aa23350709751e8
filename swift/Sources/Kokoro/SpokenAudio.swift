import KokoroSteps

/// One piece of a text's audio, as it is finished: the silence before it, then the speech. The silence that a text asks for at its end is one without.
/// Of a chunk that comes window by window the first has all words, phonemes and durations, and the others, of the same `index`, have none.
public struct SpokenAudio: Sendable {
    /// When a word is heard.
    public struct Word: Equatable, Sendable {
        /// As it is written.
        public let text: String
        /// Its place in the text that was given; in all that was written of a `LiveText`.
        public let range: Range<String.Index>
        /// The same in Unicode scalars.
        package let place: Range<Int>
        /// What was said.
        public let phonemes: String
        /// In seconds of the whole audio.
        public let seconds: Range<Double>
    }

    /// Which chunk, from 0.
    public let index: Int
    /// 24 kHz, mono, within -1 to 1; the first `silence` of them are 0. Joined one behind the other, pieces are the whole audio.
    public let samples: [Float], silence: Int
    /// Where `samples` begin in the whole audio.
    public let startSample: Int
    /// In the model's symbols.
    public let phonemes: String
    /// Frames of each token, boundaries included; 40 frames are a second.
    public let durations: [Int]
    /// Words and marks in order.
    public let words: [Word]
    /// Asked for by the text; the voice that speaks where it is the bundle's, else the one that was given speaks on.
    public let voiceAskedFor: String?
    /// Samples of a second.
    public static let sampleRateHz = 24_000
    /// Below 1 where the model was louder than full scale and the piece was turned down.
    public let gain: Float

    init(
        index: Int, chunk: PhonemeChunk, share: Joins.Share, gain: Float, silence: Int, startSample: Int, ranges: [Range<String.Index>]
    ) {
        (self.index, self.silence, self.startSample, self.gain, durations) = (index, silence, startSample, gain, share.durations)
        samples = [Float](repeating: 0, count: silence) + share.samples
        phonemes = string(chunk.phonemes)
        words = Self.words(of: chunk, ranges, edges: share.edges.map { startSample + silence + $0 })
        voiceAskedFor = chunk.voice.isEmpty ? nil : chunk.voice
    }

    init(index: Int, window: FinishedChunk, startSample: Int) {
        (self.index, samples, silence, self.startSample, gain) = (index, window.samples, 0, startSample, window.gain)
        (phonemes, durations, words, voiceAskedFor) = ("", [], [], nil)
    }

    /// Phoneme i is token i + 1: it begins after the tokens before it.
    private static func words(of chunk: PhonemeChunk, _ ranges: [Range<String.Index>], edges: [Int]) -> [Word] {
        let rate = Double(Contract.sampleRateHz)
        return zip(zip(chunk.words, ranges), chunk.places).map { written, place in
            let (word, range) = written
            let last = min(place + 1 + word.phonemes.count, edges.count - 1)
            let heard = Double(edges[place + 1]) / rate..<Double(edges[last]) / rate
            return Word(text: word.text, range: range, place: word.place, phonemes: string(word.phonemes), seconds: heard)
        }
    }
}

func string(_ scalars: [Unicode.Scalar]) -> String { String(String.UnicodeScalarView(scalars)) }
