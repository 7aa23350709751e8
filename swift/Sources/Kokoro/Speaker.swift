import KokoroSteps
import KokoroText

/// Text or phonemes to audio, piece by piece.
///
/// ```swift
/// let speaker = try Speaker(bundle: bundle, backend: backend)
/// for try await audio in speaker.speak("Hello, world!", voice: "af_heart") {
///     play(audio.samples)
/// }
/// ```
/// While a piece is played, the next one is computed, and no more: memory does not grow with the text. A task that is cancelled, or a
/// consumer that leaves the loop, stops the computation between two networks. Where the vocoder is of a streaming layout, a chunk comes in
/// several pieces, its windows, each as soon as it is computed. One speaker computes one piece at a time; several speakers,
/// or several texts of one speaker, may be spoken at once.
public actor Speaker {
    private let bundle: SpeechBundle, synthesis: ChunkSynthesis
    private var tables: [String: VoiceTable] = [:]
    private var readers: [String: RuleReader] = [:]

    /// Throws `badFile` where the vocoder's manifest has no harmonic source.
    public init(bundle: SpeechBundle, backend: any SpeechBackend) throws(KokoroError) {
        guard let source = bundle.manifest.vocoder.source else { throw .badFile("manifest.json", reason: "no source of the vocoder") }
        self.bundle = bundle
        synthesis = ChunkSynthesis(
            vocabulary: bundle.vocabulary, limits: bundle.limits,
            source: try HarmonicSource(weights: source.weights, bias: source.bias), backend: backend)
    }

    /// Audio of a text as people write it, read in the language that the voice speaks; `unsupported` where the bundle has no rules for it.
    ///
    /// Everything else as of `speak(phonemes:)`.
    public nonisolated func speak(_ text: String, voice: String, speed: Double = 1, seed: Int = 0, raw: Bool = false) -> SpeechSequence {
        sequence(.words(text), SpeechRequest(voice: voice, speed: speed, seed: seed, raw: raw))
    }

    /// Audio of a text that is phonemes already, in the model's symbols.
    ///
    /// `speed` 0.25 to 4, where 2 is twice as fast; piece k draws its noise from `seed` + k. `longest`: phonemes above which a sentence is cut.
    /// `raw`: each sentence alone, with the ticks and the silence that the model makes. The sequence throws `KokoroError`, or `CancellationError`.
    public nonisolated func speak(
        phonemes: String, voice: String, speed: Double = 1, seed: Int = 0, longest: Int = Contract.comfortablePhonemes, raw: Bool = false
    ) -> SpeechSequence {
        sequence(.phonemes(phonemes), SpeechRequest(voice: voice, speed: speed, seed: seed, longest: longest, raw: raw))
    }

    /// Audio of a text that is still being written, as a language model's tokens: a sentence is spoken when the next word, a blank line or the
    /// end has come, or nothing for 0.2 s. One loop over it speaks it.
    public nonisolated func speak(_ text: LiveText, voice: String, speed: Double = 1, seed: Int = 0) -> SpeechSequence {
        sequence(.live(text), SpeechRequest(voice: voice, speed: speed, seed: seed))
    }

    private nonisolated func sequence(_ text: SpeechText, _ request: SpeechRequest) -> SpeechSequence {
        SpeechSequence(speaker: self, start: SpeechProgress(request: request, text: text))
    }

    /// The next piece and where to go on, or nil behind the last, and where more of the text is needed.
    func next(_ before: SpeechProgress) throws -> (audio: SpokenAudio, after: SpeechProgress)? {
        _ = try checkedSpeed(before.request.speed)
        let own = try table(before.request.voice)
        var progress = before
        try Task.checkCancellation()
        if let audio = try progress.window() ?? progress.share() { return (audio, progress) }
        let reader: RuleReader? = if case .phonemes = before.text { nil } else { try openReader(voice: before.request.voice) }
        while let call = try progress.nextCall(reader, { voice throws(KokoroError) in try openReader(voice: voice) }) {
            try Task.checkCancellation()
            let chunk = call[0], parts = call.map(\.phonemes)
            do {
                if !chunk.words.isEmpty {
                    let table = try chunk.voice.isEmpty ? own : table(chunk.voice), row = try table.row(phonemes: parts.reduce(parts.count - 1) { $0 + $1.count }), request = progress.request
                    let pace = request.speed(of: chunk), seed = request.seed + progress.index
                    if call.count == 1, var rest = try synthesis.stream(
                        chunk.phonemes, row: row, speed: pace, seed: seed, raw: request.raw, first: progress.isFirst(chunk), stop: Task.checkCancellation),
                        let first = try rest.next() {
                        let share = Joins.Share(durations: rest.durations, edges: rest.edges, samples: first.samples)
                        return (progress.said(chunk, share, first.gain, rest), progress)
                    }
                    let spoken = try synthesis.speak(parts, row: row, speed: pace, seed: seed, stop: Task.checkCancellation)
                    guard let shares = Joins.shares(spoken, parts) else {
                        progress.putBack(call)
                        continue
                    }
                    progress.shares = zip(call, shares).map { ($0, $1, spoken.chunk.gain) }
                } else {
                    progress.shares = [(chunk, Joins.Share(durations: [], edges: [0], samples: []), 1)]
                }
                return progress.share().map { ($0, progress) }
            } catch KokoroError.utteranceTooLong {
                progress.putBack(call.count > 1 ? call : try chunk.halves())
            }
        }
        guard progress.index > 0 || progress.words?.isOpen == true else { throw KokoroError.nothingToSay }
        return nil
    }

    /// Opened at the first text. A voice's name says what it speaks: `bf_emma` is British, a name of another kind American.
    private func openReader(voice: String) throws(KokoroError) -> RuleReader {
        let isNamed = voice.dropFirst().hasPrefix("f_") || voice.dropFirst().hasPrefix("m_")
        guard let language = isNamed ? voice.first.flatMap({ RuleReader.languages[$0] }) : "us" else {
            throw KokoroError.unsupported("\(voice) speaks a language that is not read from text; give phonemes")
        }
        if let reader = readers[language] { return reader }
        let opened = try RuleReader(bundle: bundle.folder, language: language)
        readers[language] = opened
        return opened
    }

    private func table(_ name: String) throws -> VoiceTable {
        if let known = tables[name] { return known }
        let opened = try bundle.voice(name)
        tables[name] = opened
        return opened
    }
}

/// How a text is to be spoken.
struct SpeechRequest: Sendable {
    let voice: String, speed: Double, seed: Int
    var longest = Contract.comfortablePhonemes, raw = false

    /// With the pace that the text asks for, within what the encoder was built for.
    func speed(of chunk: PhonemeChunk) -> Double { min(max(speed * chunk.rate, Contract.speeds.lowerBound), Contract.speeds.upperBound) }
}

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
    private(set) var words: RuleReader.Place?
    private var phonemes: PhonemeReading?
    private(set) var index = 0
    private var place = 0, samples = 0, silence = 0, waiting: [PhonemeChunk] = [], alone = 0, rest: ChunkSynthesis.Streamed?, mayIdle = false
    /// Spoken and not given yet.
    var shares: [(PhonemeChunk, Joins.Share, Float)] = []

    init(request: SpeechRequest, text: SpeechText) {
        self.request = request
        self.text = text
        switch text {
        case .words(let text): words = RuleReader.Place(text)
        case .phonemes(let text): phonemes = PhonemeReading(text)
        case .live: words = RuleReader.Place()
        }
    }

    /// More of a text that is still being written; false where there is none to come.
    mutating func read() async throws -> Bool {
        guard case .live(let text) = text, words?.isOpen == true else { return false }
        let more = try await text.next(mayIdle: mayIdle)
        mayIdle = more != ""
        words?.write(more)
        return true
    }

    /// What is said next in one call: a part that waits, or the next sentence, with very short neighbours. `reader`: of words.
    mutating func nextCall(_ reader: RuleReader?, _ other: (String) throws(KokoroError) -> RuleReader) throws(KokoroError) -> [PhonemeChunk]? {
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

    private mutating func fill(_ reader: RuleReader?, _ other: (String) throws(KokoroError) -> RuleReader) throws(KokoroError) {
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

    private func silence(before chunk: PhonemeChunk) -> Int {
        chunk.pauseBefore.map { Int($0 * Double(Contract.sampleRateHz) + 0.5) } ?? silence
    }

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
        let audio = SpokenAudio(index: index, chunk: chunk, share: share, gain: gain, silence: silence(before: chunk), startSample: samples)
        index += 1
        self.rest = rest
        samples += audio.samples.count
        silence = chunk.ending.pauseSamples(speed: request.speed)
        return audio
    }
}

/// The pieces of a text in order. Each loop over it speaks the text anew.
public struct SpeechSequence: AsyncSequence, Sendable {
    public typealias Element = SpokenAudio
    let speaker: Speaker, start: SpeechProgress
    public func makeAsyncIterator() -> Iterator { Iterator(speaker: speaker, ahead: Ahead(speaker, start)) }

    /// Gives a piece and lets the next one be computed.
    public struct Iterator: AsyncIteratorProtocol {
        let speaker: Speaker
        var ahead: Ahead?

        public mutating func next() async throws -> SpokenAudio? {
            guard let waiting = ahead else { return nil }
            ahead = nil
            guard let found = try await waiting.value() else { return nil }
            ahead = Ahead(speaker, found.after)
            return found.audio
        }
    }

    /// A piece under way. It is cancelled when nobody holds it any more.
    final class Ahead: Sendable {
        private let task: Task<(audio: SpokenAudio, after: SpeechProgress)?, any Error>
        init(_ speaker: Speaker, _ start: SpeechProgress) {
            task = Task {
                var progress = start
                repeat {
                    if let found = try await speaker.next(progress) { return found }
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
