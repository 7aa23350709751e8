// The Swift of docs/ios.md and of this package's README, to be compiled: tests/house/test_docs_blocks.py holds every block of a page to be
// part of this file.
import Foundation
import Kokoro
import KokoroONNX

func speakThreeLines(folder: URL, play: ([Float]) -> Void) async throws {
    let bundle = try SpeechBundle(at: folder)
    let speaker = try Speaker(bundle: bundle, backend: try await CoreMLBackend(bundle: bundle))
    for try await audio in speaker.speak("Hello, world!", voice: "af_heart") { play(audio.samples) }
}

func speakAndCancel(speaker: Speaker, text: String, play: @escaping @Sendable ([Float]) -> Void, log: @escaping @Sendable (String) -> Void) {
    let task = Task {
        for try await audio in speaker.speak(text, voice: "af_heart", speed: 1.1) {
            log("piece \(audio.index) at sample \(audio.startSample), gain \(audio.gain)")
            play(audio.samples)
        }
    }
    task.cancel()  // stops between two networks; the loop ends with CancellationError
}

func speakWithOptions(bundle: SpeechBundle, log: (String) -> Void) async throws {
    for advisory in bundle.advisories { log("\(advisory.says) \(advisory.sources)") }
    var options = CoreMLOptions()
    options.encoderUnits = .cpuOnly  // on an M5 iPad: iOS names no chip
    let backend = try await CoreMLBackend(bundle: bundle, options: options)
    _ = backend
}

func speakWithOnnx(bundle: SpeechBundle, libraryPath: String) throws -> Speaker {
    let library = try OnnxLibrary(path: libraryPath)
    let speaker = try Speaker(bundle: bundle, backend: OnnxBackend(bundle: bundle, library: library, threads: 2))
    return speaker
}
