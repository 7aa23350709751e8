// The Swift of docs/ios.md and of this package's README, to be compiled: tests/house/test_docs_blocks.py holds every block of a page to be
// part of this file.
import Kokoro
import KokoroONNX
import SwiftUI

@MainActor func speakInTenLines(folder: URL, write: ([Float]) -> Void) async throws {
    let kokoro = try await Kokoro(bundle: folder)
    try await kokoro.play("Hello, world!", voice: "af_heart")
    for try await piece in kokoro.speak("The ferry crossed the harbour.", voice: "af_heart", speed: 1.1) {
        write(piece.samples)
    }
}

func follow(kokoro: Kokoro, text: String, mark: @escaping @Sendable (Substring) -> Void) async throws {
    try await kokoro.play(text, voice: Voice(blend: ["af_heart": 3, "bf_emma": 1])) { word in
        mark(text[word.range])
    }
    await kokoro.pause()
    try await kokoro.resume()
    await kokoro.stop()
    await kokoro.unload()  // the next text opens the networks again
}

func load(folder: URL, show: (String) -> Void) async throws -> Kokoro? {
    for try await step in Kokoro.load(bundle: folder) {
        switch step {
        case .checking: show("checking files")
        case .compiling(let package): show("compiling \(package), once")
        case .opening(let function): show("opening \(function)")
        case .ready(let kokoro): return kokoro
        }
    }
    return nil
}

func fetch(server: URL, folder: URL, show: (Double) -> Void) async throws {
    for try await step in Kokoro.download(from: server, to: folder) { show(step.fraction) }
}

func choose(folder: URL, show: (String) -> Void) async throws {
    do {
        var options = CoreMLOptions()
        options.encoderUnits = .cpuOnly
        let kokoro = try await Kokoro(bundle: folder, options: options)
        for advisory in kokoro.bundle.advisories { show("\(advisory.says) \(advisory.sources)") }
    } catch let error as KokoroError {
        show("\(error) \(error.recovery)")
    }
}

func OrtGetApiBase() -> UnsafeRawPointer? { nil }  // as the bridging header brings it

func speakWithOnnx(folder: URL) async throws -> Kokoro {
    let kokoro = try await Kokoro(bundle: folder, onnx: OnnxLibrary(linked: OrtGetApiBase))
    return kokoro
}
