import Foundation
import KokoroSteps

/// What makes samples heard: AVAudioEngine, or a stand-in of tests. It is used by one actor.
package protocol SpeechOutput: AnyObject {
    /// Gets ready, with nothing scheduled and the count of heard samples at 0. `changed`: is called where the output has stopped by itself.
    func start(changed: @escaping @Sendable (OutputChange) -> Void) throws
    /// Puts samples behind those that are scheduled; `heard` is called when they were, or were dropped by `stop`.
    func schedule(_ samples: ArraySlice<Float>, heard: @escaping @Sendable () -> Void)
    func play()
    func pause()
    func stop()
    /// Samples that were heard since `start`; nil where the output does not say.
    var heardSamples: Int? { get }
}

/// Why an output has stopped: a call comes in, and is over; another loudspeaker or format.
package enum OutputChange: Sendable { case interrupted, resumed, reconfigured }

/// Plays pieces one behind the other: they are scheduled ahead, so that nothing is heard between them, and no more than ten seconds of them.
/// After an interruption or a change of the route it goes on where it was.
package actor SpeechPlayer {
    private static let ahead = 10 * Contract.sampleRateHz
    private let makeOutput: @Sendable () throws -> any SpeechOutput
    private var output: (any SpeechOutput)?
    /// Scheduled and not heard to the end: where each begins in the whole audio.
    private var queue: [(start: Int, samples: [Float])] = []
    /// The whole audio's sample at which the output's count began, the last that is known to be heard, and the end of what is scheduled.
    private var origin = 0, heard = 0, end = 0
    /// Of the text, and of the output's start: what an older one says counts for nothing.
    private var text = 0, start = 0
    private var isPaused = false, isInterrupted = false, waiting: [CheckedContinuation<Void, Never>] = []

    package init(output: @escaping @Sendable () throws -> any SpeechOutput = SpeechPlayer.systemOutput) { makeOutput = output }

    /// Returns when the last sample was heard, or at `stop`. `word`: is called as each begins to be heard.
    func play(_ pieces: SpeechSequence, word: (@Sendable (SpokenAudio.Word) -> Void)?) async throws {
        stop()
        let mine = text
        isPaused = false
        try restart()
        do {
            try await withTaskCancellationHandler {
                var words: Task<Void, Never>?
                defer { words?.cancel() }
                for try await piece in pieces {
                    if mine != text { return }
                    schedule(piece)
                    if let word, !piece.words.isEmpty {
                        let before = words
                        words = Task {
                            await before?.value
                            await tell(piece.words, word, mine)
                        }
                    }
                    while mine == text, end - heard > Self.ahead { await change() }
                }
                while mine == text, !queue.isEmpty { await change() }
                await words?.value
                try Task.checkCancellation()
            } onCancel: {
                Task { await self.stop(mine) }
            }
        } catch {
            stop(mine)
            throw error
        }
    }

    package func pause() {
        update()
        isPaused = true
        output?.pause()
    }

    package func resume() throws {
        isPaused = false
        if isInterrupted { try restart() } else { output?.play() }
    }

    /// At once; nothing more of the text is computed.
    package func stop() {
        text += 1
        start += 1
        output?.stop()
        (queue, origin, heard, end, isInterrupted) = ([], 0, 0, 0, false)
        wake()
    }

    private func stop(_ one: Int) { if one == text { stop() } }

    private func schedule(_ piece: SpokenAudio) {
        guard !piece.samples.isEmpty else { return }
        queue.append((end, piece.samples))
        end += piece.samples.count
        if !isInterrupted { put(piece.samples[...]) }
    }

    private func put(_ samples: ArraySlice<Float>) {
        let one = start
        output?.schedule(samples) { [weak self] in Task { await self?.wasHeard(one) } }
    }

    private func wasHeard(_ one: Int) {
        guard one == start, !isInterrupted, !queue.isEmpty else { return }  // what an interrupted output drops was not heard
        let (from, samples) = queue.removeFirst()
        heard = max(heard, from + samples.count)
        wake()
    }

    /// Starts the output and puts what was not heard on it.
    private func restart() throws {
        let output = try output ?? makeOutput()
        self.output = output
        start += 1
        let one = start
        output.stop()
        try output.start { [weak self] change in Task { await self?.react(to: change, one) } }
        (origin, isInterrupted) = (heard, false)
        for (from, samples) in queue { put(samples[max(0, min(heard - from, samples.count - 1))...]) }
        if !isPaused { output.play() }
    }

    private func react(to change: OutputChange, _ one: Int) {
        guard one == start else { return }
        update()
        switch change {
        case .interrupted: isInterrupted = true
        case .resumed, .reconfigured:
            // while a call lasts it cannot start: the end of the call, or `resume`, tries again
            do { try restart() } catch { isInterrupted = true }
        }
    }

    private func update() { if let count = output?.heardSamples { heard = max(heard, min(origin + count, end)) } }

    private func tell(_ words: [SpokenAudio.Word], _ word: @Sendable (SpokenAudio.Word) -> Void, _ mine: Int) async {
        for one in words {
            let place = Int(one.seconds.lowerBound * Double(Contract.sampleRateHz))
            while mine == text, heard < place, heard < end || !queue.isEmpty {
                try? await Task.sleep(for: .milliseconds(20))
                if Task.isCancelled { return }
                update()
            }
            guard mine == text else { return }
            word(one)
        }
    }

    private func change() async { await withCheckedContinuation { waiting.append($0) } }

    private func wake() {
        let all = waiting
        waiting = []
        for one in all { one.resume() }
    }
}

extension Kokoro {
    /// Speaks, and returns when the last sample was heard, or at `stop`. What was spoken before is stopped at once.
    ///
    /// `word`: is called as each word begins to be heard. Pieces are scheduled ahead without gaps; the audio session is set so that the mute switch
    /// does not silence it, and after a call or a change of the route it goes on where it was. A task that is cancelled stops it.
    public nonisolated func play(
        _ text: String, voice: Voice, speed: Double = 1, seed: Int = 0, lexicon: [String: String] = [:], pauses: [Pause: Double] = [:],
        word: (@Sendable (SpokenAudio.Word) -> Void)? = nil
    ) async throws {
        try await player.play(speak(text, voice: voice, speed: speed, seed: seed, lexicon: lexicon, pauses: pauses), word: word)
    }

    /// The same of what `speak` gives.
    public nonisolated func play(_ pieces: SpeechSequence, word: (@Sendable (SpokenAudio.Word) -> Void)? = nil) async throws {
        try await player.play(pieces, word: word)
    }

    public nonisolated func pause() async { await player.pause() }
    public nonisolated func resume() async throws { try await player.resume() }
    /// At once.
    public nonisolated func stop() async { await player.stop() }
}
