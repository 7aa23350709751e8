import KokoroSteps
import KokoroText

/// How a text is to be spoken.
struct SpeechRequest: Sendable {
    let voice: Voice, speed: Double, seed: Int, lexicon: [String: String], pauses: [Pause: Double]
    var longest = Contract.comfortablePhonemes, raw = false

    /// With the pace that the text asks for, within what the encoder was built for.
    func speed(of chunk: PhonemeChunk) -> Double { min(max(speed * chunk.rate, Contract.speeds.lowerBound), Contract.speeds.upperBound) }
}

/// A silence: before a heading or behind a scene break, at the end of a paragraph, a sentence, or a part of a long sentence.
public enum Pause: String, CaseIterable, Sendable { case chapter, scene, paragraph, sentence, clause }

/// What is to be spoken.
enum SpeechText: Sendable {
    case words(String), phonemes(String), live(LiveText)
}

/// A text that is still being written, for one `speak`.
public final class LiveText: Sendable {
    private let pieces = AsyncThrowingStream<String, any Error>.makeStream()
    public init() {}
    public func write(_ more: String) { pieces.continuation.yield(more) }
    public func finish(throwing error: KokoroError? = nil) { pieces.continuation.finish(throwing: error) }

    /// The next piece, nil behind the last; an empty one where none comes for 0.2 s and `mayIdle`, not a timer's that came too late.
    func next(mayIdle: Bool) async throws -> String? {
        let clock = ContinuousClock(), since = clock.now, idle = Duration.milliseconds(200)
        let timer: Task<Void, any Error>? = mayIdle ? Task {
            try await Task.sleep(for: idle)
            write("")
        } : nil
        defer { timer?.cancel() }
        var reading = pieces.stream.makeAsyncIterator()
        while let piece = try await reading.next() {
            if !piece.isEmpty || (mayIdle && clock.now - since >= idle) { return piece }
        }
        return nil
    }
}

/// How far a text has been spoken.
struct SpeechProgress: Sendable {
    let request: SpeechRequest, text: SpeechText
    private var source: ScalarPlaces
    private(set) var words: RuleReader.Place?
    private var phonemes: PhonemeReading?
    private(set) var index = 0
    private var place = 0, samples = 0, before: PhonemeChunk?, waiting: [PhonemeChunk] = [], alone = 0, rest: ChunkSynthesis.Streamed?, mayIdle = false
    /// Spoken and not given yet.
    var shares: [(PhonemeChunk, Joins.Share, Float)] = []

    init(request: SpeechRequest, text: SpeechText) {
        self.request = request
        self.text = text
        switch text {
        case .words(let text): (words, source) = (RuleReader.Place(text), ScalarPlaces(text))
        case .phonemes(let text): (phonemes, source) = (PhonemeReading(text), ScalarPlaces(text))
        case .live: (words, source) = (RuleReader.Place(), ScalarPlaces(""))
        }
    }

    /// More of a text that is still being written; false where there is none to come.
    mutating func read() async throws -> Bool {
        guard case .live(let text) = text, words?.isOpen == true else { return false }
        let more = try await text.next(mayIdle: mayIdle)
        mayIdle = more != ""
        words?.write(more)
        source.append(more ?? "")
        return true
    }

    /// What is said next in one call: a part that waits, or the next sentence, with very short neighbours. `reader`: of words.
    mutating func nextCall(_ reader: RuleReader?, _ other: (String) throws(KokoroError) -> RuleReader?) throws(KokoroError) -> [PhonemeChunk]? {
        try fill(reader, other)
        var call: [PhonemeChunk] = [], count = -1
        while let chunk = waiting.first {
            count += 1 + chunk.phonemes.count
            if let first = call.first, !chunk.isShort || chunk.rate != first.rate || chunk.voice != first.voice || count > 60 { break }
            call.append(waiting.removeFirst())
            if request.raw || !chunk.isShort || alone > 0 { break }
            try fill(reader, other)
        }
        alone = max(0, alone - 1)
        return call.isEmpty ? nil : call
    }

    private mutating func fill(_ reader: RuleReader?, _ other: (String) throws(KokoroError) -> RuleReader?) throws(KokoroError) {
        guard waiting.isEmpty else { return }
        if let found = phonemes?.sentence(from: place) {
            place = found.next
            waiting = try found.chunk.cut(longest: request.longest)
        } else if var own = words, let parts = try reader?.next(&own, other: other) {
            words = own
            for part in parts { waiting += try part.cut(longest: request.longest) }
        }
    }

    /// The parts of a call that was too long, to be said one by one.
    mutating func putBack(_ parts: [PhonemeChunk]) {
        waiting.insert(contentsOf: parts, at: 0)
        alone += parts.count
    }

    /// Whether nothing stands before it, so that the model's silence stays.
    func isFirst(_ chunk: PhonemeChunk) -> Bool { index == 0 && chunk.pauseBefore == nil }

    /// A silence that was asked for is the same at every speed.
    private func silence(before chunk: PhonemeChunk) -> Int {
        if let seconds = chunk.pauseBefore { return Self.samples(min(seconds, 3600)) }
        guard let before else { return 0 }
        let ending = chunk.beginsChapter(after: before) || chunk.opening == .scene ? chunk.opening ?? .none : before.ending
        return Pause(rawValue: ending.rawValue).flatMap { request.pauses[$0] }.map(Self.samples) ?? ending.pauseSamples(speed: request.speed)
    }

    private static func samples(_ seconds: Double) -> Int { Int(seconds * Double(Contract.sampleRateHz) + 0.5) }

    /// The next chunk of a call that was spoken, its silence cut at both ends.
    mutating func share() -> SpokenAudio? {
        guard !shares.isEmpty else { return nil }
        let (chunk, share, gain) = shares.removeFirst()
        if request.raw || share.samples.isEmpty { return said(chunk, share, gain) }
        var trim = JoinTrim(edges: share.edges, phonemes: chunk.phonemes, first: isFirst(chunk))
        let samples = trim(share.samples), edges = Joins.heard(samples, share.edges.map { $0 - trim.start }, chunk.phonemes)
        return said(chunk, Joins.Share(durations: share.durations, edges: edges, samples: samples), gain)
    }

    /// The next window of the chunk under way; nil where none is.
    mutating func window() throws -> SpokenAudio? {
        guard let found = try rest?.next() else {
            rest = nil
            return nil
        }
        defer { samples += found.samples.count }
        return SpokenAudio(index: index - 1, window: found, startSample: samples)
    }

    /// The finished piece; the progress goes on behind it. `rest`: the chunk's later windows.
    mutating func said(_ chunk: PhonemeChunk, _ share: Joins.Share, _ gain: Float, _ rest: ChunkSynthesis.Streamed? = nil) -> SpokenAudio {
        let audio = SpokenAudio(
            index: index, chunk: chunk, share: share, gain: gain, silence: silence(before: chunk), startSample: samples,
            ranges: chunk.words.map { source.range($0.place) })
        index += 1
        self.rest = rest
        samples += audio.samples.count
        before = chunk
        return audio
    }
}

/// The pieces of a text in order. Each loop over it speaks the text anew.
public struct SpeechSequence: AsyncSequence, Sendable {
    public typealias Element = SpokenAudio
    let kokoro: Kokoro, start: SpeechProgress
    public func makeAsyncIterator() -> Iterator { Iterator(kokoro: kokoro, ahead: Ahead(kokoro, start)) }

    /// Gives a piece and lets the next one be computed.
    public struct Iterator: AsyncIteratorProtocol {
        let kokoro: Kokoro
        var ahead: Ahead?

        public mutating func next() async throws -> SpokenAudio? {
            guard let waiting = ahead else { return nil }
            ahead = nil
            guard let found = try await waiting.value() else { return nil }
            ahead = Ahead(kokoro, found.after)
            return found.audio
        }
    }

    /// A piece under way. It is cancelled when nobody holds it any more.
    final class Ahead: Sendable {
        private let task: Task<(audio: SpokenAudio, after: SpeechProgress)?, any Error>
        init(_ kokoro: Kokoro, _ start: SpeechProgress) {
            task = Task {
                var progress = start
                repeat {
                    if let found = try await kokoro.next(progress) { return found }
                } while try await progress.read()
                return nil
            }
        }
        deinit { task.cancel() }

        func value() async throws -> (audio: SpokenAudio, after: SpeechProgress)? {
            try await withTaskCancellationHandler { try await task.value } onCancel: { task.cancel() }
        }
    }
}

/// Places in Unicode scalars to those of a string, each found from the one before.
struct ScalarPlaces: Sendable {
    private var text: String, offset = 0, index: String.Index

    init(_ text: String) {
        self.text = text
        self.text.makeContiguousUTF8()
        index = self.text.startIndex
    }

    mutating func append(_ more: String) {
        let utf8 = text.utf8.distance(from: text.startIndex, to: index)
        text += more
        index = text.utf8.index(text.startIndex, offsetBy: utf8)
    }

    mutating func range(_ place: Range<Int>) -> Range<String.Index> {
        let start = move(to: place.lowerBound)
        return start..<move(to: place.upperBound)
    }

    private mutating func move(to place: Int) -> String.Index {
        let end = place < offset ? text.startIndex : text.endIndex
        index = text.unicodeScalars.index(index, offsetBy: place - offset, limitedBy: end) ?? end
        offset = place
        return index
    }
}
