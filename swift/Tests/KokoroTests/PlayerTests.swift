import Foundation
@testable import Kokoro
import Synchronization
import Testing

/// An output without sound: it hears what is scheduled a hundred times as fast as a loudspeaker, and can be interrupted.
final class SilentOutput: SpeechOutput, @unchecked Sendable {
    struct State {
        var queue: [(samples: [Float], heard: @Sendable () -> Void)] = [], heard = 0, isPlaying = false, starts = 0
        var all: [Float] = [], most = Int.max, gaps = 0, failures = 0, changed: (@Sendable (OutputChange) -> Void)?
    }
    let state = Mutex(State())
    private let block = 2400

    init() {
        Thread.detachNewThread { [weak self] in
            while let self {
                Thread.sleep(forTimeInterval: 0.001)
                self.hear()
            }
        }
    }

    private func hear() {
        let ended: [@Sendable () -> Void] = state.withLock { state in
            guard state.isPlaying, state.all.count < state.most else { return [] }
            var left = block, ended: [@Sendable () -> Void] = []
            while left > 0, !state.queue.isEmpty {
                let count = min(left, state.queue[0].samples.count)
                state.all += state.queue[0].samples.prefix(count)
                state.queue[0].samples.removeFirst(count)
                (state.heard, left) = (state.heard + count, left - count)
                if state.queue[0].samples.isEmpty { ended.append(state.queue.removeFirst().heard) }
            }
            return ended
        }
        for one in ended { one() }
    }

    func start(changed: @escaping @Sendable (OutputChange) -> Void) throws {
        try state.withLock { state in
            guard state.failures == 0 else {
                state.failures -= 1
                throw KokoroError.audio("busy")
            }
            state.starts += 1
            (state.heard, state.changed) = (0, changed)
        }
    }

    func schedule(_ samples: ArraySlice<Float>, heard: @escaping @Sendable () -> Void) { state.withLock { $0.queue.append((Array(samples), heard)) } }
    func play() { state.withLock { $0.isPlaying = true } }
    func pause() { state.withLock { $0.isPlaying = false } }

    /// As AVAudioPlayerNode: what was dropped is told as played.
    func stop() {
        let dropped = state.withLock { state in
            defer { (state.queue, state.isPlaying, state.heard) = ([], false, 0) }
            return state.queue.map(\.heard)
        }
        for one in dropped { one() }
    }

    var heardSamples: Int? { state.withLock { $0.isPlaying ? $0.heard : nil } }

    func interrupt(_ change: OutputChange) {
        if change == .interrupted { state.withLock { $0.isPlaying = false } }
        state.withLock { $0.changed }?(change)
    }
}

@Suite struct PlayerTests {
    private static let text = "hˈI, ðˈɛɹ. " + String(repeating: "wˌi ˌɑɹ hˈɪɹ, ˌænd hˈɪɹ. ", count: 12)

    private func kokoro(_ output: SilentOutput) async throws -> Kokoro {
        try await Kokoro(bundle: TestBundles.packages(), player: SpeechPlayer { output }) { _ in ToneBackend() }
    }

    private func samples(_ one: Kokoro) async throws -> [Float] {
        var all: [Float] = []
        for try await piece in one.speak(phonemes: Self.text, voice: "rms") { all += piece.samples }
        return all
    }

    @Test func allOfATextIsHeardOnceAndItsWordsInOrder() async throws {
        let output = SilentOutput(), one = try await kokoro(output), words = Mutex([String]())
        try await one.play(one.speak(phonemes: Self.text, voice: "rms")) { word in words.withLock { $0.append(word.text) } }
        #expect(try await output.state.withLock { $0.all } == samples(one))
        var wanted: [String] = []
        for try await piece in one.speak(phonemes: Self.text, voice: "rms") { wanted += piece.words.map(\.text) }
        #expect(words.withLock { $0 } == wanted)
    }

    @Test func aPauseHoldsAndStopIsAtOnce() async throws {
        let output = SilentOutput(), one = try await kokoro(output), task = Task { try await one.play(one.speak(phonemes: Self.text, voice: "rms")) }
        while output.state.withLock({ $0.all.count }) < 4800 { try await Task.sleep(for: .milliseconds(1)) }
        await one.pause()
        let paused = output.state.withLock { $0.all.count }
        try await Task.sleep(for: .milliseconds(50))
        #expect(output.state.withLock { $0.all.count } == paused)
        try await one.resume()
        while output.state.withLock({ $0.all.count }) == paused { try await Task.sleep(for: .milliseconds(1)) }
        await one.stop()
        try await task.value
        #expect(output.state.withLock { $0.queue.isEmpty && !$0.isPlaying })
        // what is spoken next is heard whole, though the first was on its way
        output.state.withLock { $0.all = [] }
        try await one.play(one.speak(phonemes: Self.text, voice: "rms"))
        #expect(try await output.state.withLock { $0.all } == samples(one))
    }

    /// A call comes in, then another loudspeaker: nothing is lost or heard twice but what was on its way.
    @Test(arguments: [OutputChange.interrupted, .reconfigured]) func afterAChangeItGoesOnWhereItWas(change: OutputChange) async throws {
        let output = SilentOutput(), one = try await kokoro(output), task = Task { try await one.play(one.speak(phonemes: Self.text, voice: "rms")) }
        while output.state.withLock({ $0.all.count }) < 24_000 { try await Task.sleep(for: .milliseconds(1)) }
        if change == .interrupted {
            output.interrupt(.interrupted)
            try await Task.sleep(for: .milliseconds(30))
            let held = output.state.withLock { $0.all.count }
            try await Task.sleep(for: .milliseconds(30))
            #expect(output.state.withLock { $0.all.count } == held)
            output.interrupt(.resumed)
        } else { output.interrupt(.reconfigured) }
        try await task.value
        let all = output.state.withLock { $0.all }, wanted = try await samples(one)
        #expect(output.state.withLock { $0.starts } == 2 && all.count >= wanted.count && all.count < wanted.count + 48_000)
        #expect(Array(all.suffix(24_000)) == Array(wanted.suffix(24_000)))
    }

    @Test func aTaskThatIsCancelledStopsTheSoundAndAnOutputThatDoesNotStartIsAnError() async throws {
        let output = SilentOutput(), one = try await kokoro(output)
        output.state.withLock { $0.most = 1 }  // on a busy machine all would be heard before it is cancelled
        let task = Task { try await one.play(one.speak(phonemes: Self.text, voice: "rms")) }
        while output.state.withLock({ $0.all.isEmpty }) { try await Task.sleep(for: .milliseconds(1)) }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(output.state.withLock { $0.queue.isEmpty })
        output.state.withLock { $0.failures = 1 }
        await #expect(throws: KokoroError.audio("busy")) { try await one.play("Hello.", voice: "rms") }
    }
}
