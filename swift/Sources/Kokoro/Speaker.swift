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
    public nonisolated func speak(_ text: String, voice: String, speed: Double = 1, seed: Int = 0, fadesTicks: Bool = true) -> SpeechSequence {
        let request = SpeechRequest(voice: voice, speed: speed, seed: seed, longest: Contract.comfortablePhonemes, fadesTicks: fadesTicks)
        return SpeechSequence(speaker: self, start: SpeechProgress(request: request, text: .words(text)))
    }

    /// Audio of a text that is phonemes already, in the model's symbols.
    ///
    /// `speed` 0.25 to 4, where 2 is twice as fast; piece k draws its noise from `seed` + k. `longest`: phonemes above which a sentence is cut.
    /// `fadesTicks`: see `TickFade`. The sequence throws `KokoroError`, or `CancellationError`.
    public nonisolated func speak(
        phonemes: String, voice: String, speed: Double = 1, seed: Int = 0, longest: Int = Contract.comfortablePhonemes, fadesTicks: Bool = true
    ) -> SpeechSequence {
        let request = SpeechRequest(voice: voice, speed: speed, seed: seed, longest: longest, fadesTicks: fadesTicks)
        return SpeechSequence(speaker: self, start: SpeechProgress(request: request, text: .phonemes(phonemes)))
    }

    /// The next piece and where to go on, or nil behind the last.
    func next(_ before: SpeechProgress) throws -> (audio: SpokenAudio, after: SpeechProgress)? {
        _ = try checkedSpeed(before.request.speed)
        let table = try table(before.request.voice)
        var progress = before
        try Task.checkCancellation()
        if let audio = try progress.window() { return (audio, progress) }
        let reader: RuleReader? = if case .words = before.text { try openReader(voice: before.request.voice) } else { nil }
        while let chunk = try progress.nextChunk(reader) {
            try Task.checkCancellation()
            if chunk.words.isEmpty { return progress.said(chunk, nil) }
            do {
                let row = try table.row(phonemes: chunk.phonemes.count), request = progress.request
                let pace = request.speed(of: chunk), seed = request.seed + progress.index
                if var rest = try synthesis.stream(
                    chunk.phonemes, row: row, speed: pace, seed: seed, fadesTicks: request.fadesTicks, stop: Task.checkCancellation),
                    let first = try rest.next() {
                    return progress.said(chunk, ChunkSynthesis.Spoken(chunk: first, durations: rest.durations), rest)
                }
                return progress.said(chunk, try synthesis.speak(
                    chunk.phonemes, row: row, speed: pace, seed: seed, fadesTicks: request.fadesTicks, stop: Task.checkCancellation))
            } catch KokoroError.utteranceTooLong {
                try progress.putBack(chunk.halves())
            }
        }
        guard progress.index > 0 else { throw KokoroError.nothingToSay }
        return nil
    }

    /// Opened at the first text. A voice's name says what it speaks: `bf_emma` is British, a name of another kind American.
    private func openReader(voice: String) throws -> RuleReader {
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
    let voice: String, speed: Double, seed: Int, longest: Int, fadesTicks: Bool

    /// With the pace that the text asks for, within what the encoder was built for.
    func speed(of chunk: PhonemeChunk) -> Double { min(max(speed * chunk.rate, Contract.speeds.lowerBound), Contract.speeds.upperBound) }
}

/// What is to be spoken.
enum SpeechText: Sendable {
    case words(String), phonemes(String)
}

/// How far a text has been spoken.
struct SpeechProgress: Sendable {
    let request: SpeechRequest, text: SpeechText
    private var words: RuleReader.Place?, phonemes: PhonemeReading?
    private(set) var index = 0
    private var place = 0, samples = 0, silence = 0, waiting: [PhonemeChunk] = [], rest: ChunkSynthesis.Streamed?

    init(request: SpeechRequest, text: SpeechText) {
        self.request = request
        self.text = text
        switch text {
        case .words(let text): words = RuleReader.Place(text)
        case .phonemes(let text): phonemes = PhonemeReading(text)
        }
    }

    /// What is to be said next: a part that waits, or the next sentence. `reader`: of words.
    mutating func nextChunk(_ reader: RuleReader?) throws(KokoroError) -> PhonemeChunk? {
        if waiting.isEmpty, let found = phonemes?.sentence(from: place) {
            place = found.next
            waiting = try found.chunk.cut(longest: request.longest)
        } else if waiting.isEmpty, var own = words, let parts = try reader?.next(&own) {
            words = own
            for part in parts { waiting += try part.cut(longest: request.longest) }
        }
        return waiting.isEmpty ? nil : waiting.removeFirst()
    }

    /// The parts of a chunk that was too long.
    mutating func putBack(_ parts: [PhonemeChunk]) { waiting.insert(contentsOf: parts, at: 0) }

    private func silence(before chunk: PhonemeChunk) -> Int {
        chunk.pauseBefore.map { Int($0 * Double(Contract.sampleRateHz) + 0.5) } ?? silence
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

    /// The finished piece, and the progress behind it. Without `spoken` it is silence; `rest`: the chunk's later windows.
    func said(_ chunk: PhonemeChunk, _ spoken: ChunkSynthesis.Spoken?, _ rest: ChunkSynthesis.Streamed? = nil) -> (audio: SpokenAudio, after: SpeechProgress) {
        let audio = SpokenAudio(index: index, chunk: chunk, spoken: spoken, silence: silence(before: chunk), startSample: samples)
        var after = self
        after.index += 1
        after.rest = rest
        after.samples += audio.samples.count
        after.silence = chunk.ending.pauseSamples(speed: request.speed)
        return (audio, after)
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
        init(_ speaker: Speaker, _ progress: SpeechProgress) { task = Task { try await speaker.next(progress) } }
        deinit { task.cancel() }

        func value() async throws -> (audio: SpokenAudio, after: SpeechProgress)? {
            try await withTaskCancellationHandler { try await task.value } onCancel: { task.cancel() }
        }
    }
}
