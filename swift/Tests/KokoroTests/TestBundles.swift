import Foundation
import Synchronization
import Kokoro
import KokoroSteps

/// The bundles that the tests read, named by the environment: KOKORO_BUNDLE of packages, KOKORO_BUNDLE_ONNX of ONNX files.
enum TestBundles {
    static func folder(_ variable: String) throws -> URL {
        guard let path = ProcessInfo.processInfo.environment[variable] else { throw KokoroError.badFile(variable, reason: "names no bundle") }
        return URL(fileURLWithPath: path, isDirectory: true)
    }

    static func packages() throws -> SpeechBundle { try SpeechBundle(at: folder("KOKORO_BUNDLE")) }

    static let onnxGiven = ProcessInfo.processInfo.environment["KOKORO_BUNDLE_ONNX"] != nil
    static let streamingGiven = ProcessInfo.processInfo.environment["KOKORO_BUNDLE_STREAMING"] != nil
    static var library: String? { ProcessInfo.processInfo.environment["KOKORO_ONNXRUNTIME"] }

    /// A copy of the bundle of packages, its large files as links, to be damaged.
    static func copy() throws -> URL {
        let from = try folder("KOKORO_BUNDLE"), to = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString, isDirectory: true)
        let files = FileManager.default
        try files.createDirectory(at: to, withIntermediateDirectories: true)
        for name in ["manifest.json", "vocabulary.json", "voices", "text"] { try files.copyItem(at: from.appendingPathComponent(name), to: to.appendingPathComponent(name)) }
        try files.createDirectory(at: to.appendingPathComponent("packages"), withIntermediateDirectories: true)
        for name in try files.contentsOfDirectory(atPath: from.appendingPathComponent("packages").path) {
            let source = from.appendingPathComponent("packages/\(name)"), target = to.appendingPathComponent("packages/\(name)")
            if name.hasSuffix(".json") { try files.copyItem(at: source, to: target) } else { try files.createSymbolicLink(at: target, withDestinationURL: source) }
        }
        return to
    }
}

/// Networks without weights, for any input at exact length: two frames a token, 120 Hz, a quiet tone. `calls` counts waveforms; each of the
/// first `meets` waits, for 20 s at most, until the last of them has begun.
final class ToneBackend: SpeechBackend {
    let tokenBuckets = Buckets([]), frameBuckets: Buckets, vocoderBuckets = Buckets([])
    private let counter = Counter(), framesPerToken: Float, level: Float, meets: Int

    init(framesPerToken: Float = 2, level: Float = 0.1, longest: Int = 100_000, meets: Int = 0) {
        self.meets = meets
        self.framesPerToken = framesPerToken
        self.level = level
        frameBuckets = Buckets([longest])
    }

    var calls: Int { get async { await counter.count } }
    private let entered = Mutex(0)
    /// How many calls have begun.
    var begun: Int { entered.withLock { $0 } }

    func durations(ids: [Int32], style: [Float], speed: Float) throws -> EncodedText {
        let columns = try Tensor("hidden", shape: [1, 1, 1, ids.count], values: ids.map { Float($0) })
        return EncodedText(raw: [Float](repeating: framesPerToken / speed, count: ids.count), hidden: columns, text: columns)
    }

    func prosody(frames: Tensor, style: [Float]) throws -> Prosody {
        Prosody(f0Hz: [Float](repeating: 120, count: 2 * frames.columns), energy: [Float](repeating: 0, count: 2 * frames.columns))
    }

    func waveform(features: Tensor, style: [Float]) throws -> [Float] {
        Task { await counter.add() }
        let known = entered.withLock {
            $0 += 1
            return $0
        }
        for _ in 0..<10_000 where known <= meets && begun < meets { Thread.sleep(forTimeInterval: 0.002) }
        return (0..<600 * (features.columns - 1)).map { level * Float(sin(Double($0) * 0.03)) }
    }
}

/// Counts, from any task.
actor Counter {
    private(set) var count = 0
    func add() { count += 1 }
}
