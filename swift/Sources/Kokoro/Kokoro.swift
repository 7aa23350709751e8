import Dispatch
import Foundation
import KokoroSteps
import KokoroText

/// What goes wrong, each case with what an app can do about it.
public typealias KokoroError = KokoroSteps.KokoroError

/// Text or phonemes to audio.
///
/// ```swift
/// let kokoro = try await Kokoro(bundle: folder)
/// try await kokoro.play("Hello, world!", voice: "af_heart")
/// for try await piece in kokoro.speak("Hello, world!", voice: "af_heart") { write(piece.samples) }
/// ```
/// While a piece is played, the next one is computed, and no more: memory does not grow with the text. A task that is cancelled, or a
/// consumer that leaves the loop, stops the computation between two networks. Where the vocoder is of a streaming layout, a chunk comes in
/// several pieces, its windows, each as soon as it is computed. One `Kokoro` computes one piece at a time, on a queue of its own; several
/// texts may be spoken at once.
public actor Kokoro {
    /// The folder's parts.
    public nonisolated let bundle: SpeechBundle
    nonisolated let player: SpeechPlayer
    private let executor = QueueExecutor(), open: @Sendable (SpeechBundle) async throws -> any SpeechBackend
    private var synthesis: Task<ChunkSynthesis, any Error>?
    private var tables: [Voice: VoiceTable] = [:], readers: [ReaderKey: RuleReader] = [:]

    /// What a reader is of.
    private struct ReaderKey: Hashable { let language: Voice.Language, lexicon: [String: String] }

    /// Networks of any kind; opened here, and once more behind `unload`.
    package init(bundle: SpeechBundle, player: SpeechPlayer = SpeechPlayer(), open: @escaping @Sendable (SpeechBundle) async throws -> any SpeechBackend) async throws {
        (self.bundle, self.player, self.open) = (bundle, player, open)
        _ = try await loaded()
    }

    /// The networks and the reader work on a queue: they may take long, which the threads of Swift's tasks may not.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    /// The voices of the bundle, sorted by name.
    public nonisolated var voices: [Voice] { bundle.voices.map { Voice($0) } }

    /// Audio of a text as people write it, read in the language that the voice speaks; `unsupported` where the bundle has no rules for it.
    ///
    /// `speed` 0.25 to 4, where 2 is twice as fast; piece k draws its noise from `seed` + k. `lexicon`: the app's own words, each with its phonemes
    /// in the model's symbols; a word in lower case also holds for its capitalised form. `pauses`: seconds, at any speed, of the silences that are
    /// to be others than the usual ones; a heading opens a chapter, a line of `***` or `---` a scene. `raw`: each sentence alone, with the ticks and the
    /// silence that the model makes. The sequence throws `KokoroError`, or `CancellationError`.
    public nonisolated func speak(
        _ text: String, voice: Voice, speed: Double = 1, seed: Int = 0, lexicon: [String: String] = [:], pauses: [Pause: Double] = [:],
        raw: Bool = false
    ) -> SpeechSequence {
        sequence(.words(text), SpeechRequest(voice: voice, speed: speed, seed: seed, lexicon: lexicon, pauses: pauses, raw: raw))
    }

    /// Audio of a text that is phonemes already, in the model's symbols. `longest`: phonemes above which a sentence is cut.
    public nonisolated func speak(
        phonemes: String, voice: Voice, speed: Double = 1, seed: Int = 0, longest: Int = 300, pauses: [Pause: Double] = [:], raw: Bool = false
    ) -> SpeechSequence {
        sequence(.phonemes(phonemes), SpeechRequest(voice: voice, speed: speed, seed: seed, lexicon: [:], pauses: pauses, longest: longest, raw: raw))
    }

    /// Audio of a text that is still being written, as a language model's tokens: a sentence is spoken when the next word, a blank line or the
    /// end has come, or nothing for 0.2 s. One loop over it speaks it.
    public nonisolated func speak(
        _ text: LiveText, voice: Voice, speed: Double = 1, seed: Int = 0, lexicon: [String: String] = [:], pauses: [Pause: Double] = [:]
    ) -> SpeechSequence {
        sequence(.live(text), SpeechRequest(voice: voice, speed: speed, seed: seed, lexicon: lexicon, pauses: pauses))
    }

    /// Frees the networks, readers and voices, for a warning of low memory. The next text opens them again.
    public func unload() {
        synthesis = nil
        (tables, readers) = ([:], [:])
    }

    private nonisolated func sequence(_ text: SpeechText, _ request: SpeechRequest) -> SpeechSequence {
        SpeechSequence(kokoro: self, start: SpeechProgress(request: request, text: text))
    }

    /// Throws `badFile` where the vocoder's manifest has no harmonic source.
    private func loaded() async throws -> ChunkSynthesis {
        let task = synthesis ?? Task { [bundle, open] in
            guard let source = bundle.manifest.vocoder.source else { throw KokoroError.badFile("manifest.json", reason: "no source of the vocoder") }
            return ChunkSynthesis(
                vocabulary: bundle.vocabulary, limits: bundle.limits, source: try HarmonicSource(weights: source.weights, bias: source.bias),
                backend: try await open(bundle))
        }
        synthesis = task
        do { return try await task.value } catch {
            synthesis = nil
            throw error
        }
    }

    /// The next piece and where to go on, or nil behind the last, and where more of the text is needed.
    func next(_ before: SpeechProgress) async throws -> (audio: SpokenAudio, after: SpeechProgress)? {
        let synthesis = try await loaded()
        _ = try checkedSpeed(before.request.speed)
        guard before.request.pauses.values.allSatisfy({ 0...60 ~= $0 }) else { throw KokoroError.unsupported("a pause has 0 to 60 seconds") }
        _ = try table(before.request.voice)
        var progress = before
        try Task.checkCancellation()
        if let audio = try progress.window() ?? progress.share() { return (audio, progress) }
        let request = before.request
        let reader: RuleReader? = if case .phonemes = before.text { nil } else { try openReader(request.voice, request.lexicon) }
        func other(_ name: String) throws(KokoroError) -> RuleReader? { canSpeak(name) ? try openReader(Voice(name), request.lexicon) : nil }
        while let call = try progress.nextCall(reader, other) {
            try Task.checkCancellation()
            let chunk = call[0], parts = call.map(\.phonemes)
            do {
                if !chunk.words.isEmpty {
                    let row = try table(canSpeak(chunk.voice) ? Voice(chunk.voice) : request.voice).row(phonemes: parts.reduce(parts.count - 1) { $0 + $1.count })
                    let pace = request.speed(of: chunk), seed = request.seed &+ progress.index
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

    /// Whether a voice that a text names is here, with rules of its language. Where it is not, the voice that was asked for goes on.
    private func canSpeak(_ name: String) -> Bool {
        bundle.voices.contains(name) && Voice(name).language.map { bundle.reads($0) } ?? false
    }

    /// Opened at the first text.
    private func openReader(_ voice: Voice, _ lexicon: [String: String]) throws(KokoroError) -> RuleReader {
        guard let language = voice.language else {
            throw KokoroError.unsupported("\(voice.name) speaks a language that is not read from text; give phonemes")
        }
        guard lexicon.isEmpty || language.isEnglish else { throw .unsupported("a lexicon is taken for English only") }
        let key = ReaderKey(language: language, lexicon: lexicon)
        if let reader = readers[key] { return reader }
        try bundle.requireIntactText(language)
        let opened = try RuleReader(bundle: bundle.folder, language: language.rawValue, lexicon: lexicon)
        readers[key] = opened
        return opened
    }

    private func table(_ voice: Voice) throws -> VoiceTable {
        if let known = tables[voice] { return known }
        let opened = try bundle.table(of: voice)
        tables[voice] = opened
        return opened
    }
}

/// Runs an actor's work on a queue.
private final class QueueExecutor: SerialExecutor {
    private let queue = DispatchQueue(label: "kokoro", qos: .userInitiated)

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }
}
