#if canImport(CoreML)
import CoreML
import Foundation
import KokoroSteps

/// Where Core ML computes, and where it keeps what it compiled.
public struct CoreMLOptions: Sendable {
    /// Of the encoder and of the vocoder; nil: as the bundle's table has them for this system and chip.
    public var encoderUnits: MLComputeUnits?, vocoderUnits: MLComputeUnits?
    /// Folder for this bundle's compiled packages; what is none of them is removed there. nil: one in the user's caches, by the bundle's name.
    public var cache: URL?
    public init() {}
}

extension Kokoro {
    /// What is done before the first sound, in its order.
    public enum Loading: Sendable {
        /// Sizes and manifests of the bundle's files.
        case checking
        /// A package, for this device: the first start alone, and by far the slowest step, seconds to minutes.
        case compiling(String)
        /// A compiled package, by its function.
        case opening(String)
        case ready(Kokoro)
    }

    /// Opens a bundle of Core ML packages and says how far it is. Throws `KokoroError`.
    public static func load(bundle folder: URL, options: CoreMLOptions = CoreMLOptions()) -> AsyncThrowingStream<Loading, any Error> {
        AsyncThrowingStream { steps in
            let task = Task {
                do {
                    steps.yield(.ready(try await Kokoro(bundle: folder, options: options) { steps.yield($0) }))
                    steps.finish()
                } catch { steps.finish(throwing: error) }
            }
            steps.onTermination = { _ in task.cancel() }
        }
    }

    /// Opens a bundle of Core ML packages. `progress`: is told each step, as `load` gives them.
    public init(bundle folder: URL, options: CoreMLOptions = CoreMLOptions(), progress: @escaping @Sendable (Loading) -> Void = { _ in }) async throws {
        progress(.checking)
        try await self.init(bundle: try SpeechBundle(at: folder)) { try await CoreMLBackend(bundle: $0, options: options, progress: progress) }
    }

    /// Removes the compiled packages of all bundles; the next start compiles again. Throws `disk`.
    public static func removeCompiledPackages(in cache: URL? = nil) throws {
        let folder = try cache ?? CoreMLBackend.caches()
        guard FileManager.default.fileExists(atPath: folder.path) else { return }
        do { try FileManager.default.removeItem(at: folder) } catch { throw KokoroError(folder, error) }
    }
}

/// The networks of a bundle's Core ML packages.
///
/// The first start on a device compiles them, which takes seconds; later ones find them in the cache. Before the first call the compiled
/// program is asked for its lengths: programs that had lost them were reported to give NaN. Such a one is compiled once more.
package struct CoreMLBackend: SpeechBackend {
    package let tokenBuckets: Buckets, frameBuckets: Buckets, vocoderBuckets: Buckets
    package let streaming: StreamingVocoder?
    private let duration: CoreMLProgram, melody: CoreMLProgram, vocoder: CoreMLProgram?

    /// Throws `unsupported` for a bundle of ONNX files or a program without its lengths, `backend` with Core ML's words, `disk`.
    package init(bundle: SpeechBundle, options: CoreMLOptions = CoreMLOptions(), progress: @escaping @Sendable (Kokoro.Loading) -> Void = { _ in }) async throws {
        guard !bundle.isOnnx else { throw KokoroError.unsupported("the bundle holds ONNX files, not Core ML packages: KokoroONNX opens them") }
        let opener = try Opener(bundle: bundle, options: options, progress: progress)
        (tokenBuckets, frameBuckets) = (try bundle.buckets(\.tokenBuckets, of: "duration"), try bundle.buckets(\.buckets, of: "prosody"))
        vocoderBuckets = try bundle.buckets(\.buckets, of: "vocoder")
        duration = try await opener.program("duration", "input_ids", tokenBuckets.lengths)
        melody = try await opener.program("prosody", "frames", frameBuckets.lengths)
        func part(_ name: String, _ lengths: [Int]) async throws -> CoreMLProgram { try await opener.program(name, "features", lengths.map { $0 + 1 }) }
        if let lengths = try bundle.streamingLengths() {
            func function(_ name: String, _ lengths: [Int]) async throws -> StreamingVocoder.Function {
                let opened = try await part(name, lengths), outputs = StreamingVocoder.outputs[name] ?? []
                return { inputs in try opened(Dictionary(uniqueKeysWithValues: inputs.map { ($0.name, CoreMLInput($0.value)) }), outputs: outputs) }
            }
            vocoder = nil
            streaming = StreamingVocoder(
                lengths, decoder: try await function("decoder", lengths.decoder.lengths),
                utterance: try await function("utterance", lengths.utterance.lengths), window: try await function("window", lengths.windows))
        } else {
            (vocoder, streaming) = (try await part("vocoder", vocoderBuckets.lengths), nil)
        }
        opener.removeOthers()
    }

    package func durations(ids: [Int32], style: [Float], speed: Float) throws -> EncodedText {
        let answer = try duration([
            "input_ids": CoreMLInput(shape: [1, ids.count], values: ids.map { Float($0) }),
            "style": CoreMLInput(shape: [1, style.count], values: style), "speed": CoreMLInput(shape: [1], values: [speed]),
        ], outputs: ["durations", "hidden", "text"])
        return EncodedText(raw: answer[0].values, hidden: answer[1], text: answer[2])
    }

    package func prosody(frames: Tensor, style: [Float]) throws -> Prosody {
        let given = ["frames": CoreMLInput(frames), "style": CoreMLInput(shape: [1, style.count], values: style)]
        let answer = try melody(given, outputs: ["f0_hz", "energy"])
        return Prosody(f0Hz: answer[0].values, energy: answer[1].values)
    }

    package func waveform(features: Tensor, style: [Float]) throws -> [Float] {
        let given = ["features": CoreMLInput(features), "style": CoreMLInput(shape: [1, style.count, 1, 1], values: style)]
        return try vocoder?(given, outputs: ["waveform"])[0].values ?? []
    }

    /// What Core ML says, as an error of this package.
    static func failure(_ name: String, _ error: any Error) -> KokoroError {
        error as? KokoroError ?? .backend("Core ML, \(name): \((error as NSError).localizedDescription)")
    }

    /// Where the compiled packages of all bundles are kept.
    static func caches() throws(KokoroError) -> URL {
        do {
            return try FileManager.default.url(for: .cachesDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
                .appendingPathComponent("kokoro", isDirectory: true)
        } catch { throw .disk("caches", reason: error.localizedDescription) }
    }
}

/// Opens functions of packages, compiled where they are not in the cache.
private struct Opener {
    let bundle: SpeechBundle, options: CoreMLOptions, folder: URL, progress: @Sendable (Kokoro.Loading) -> Void

    init(bundle: SpeechBundle, options: CoreMLOptions, progress: @escaping @Sendable (Kokoro.Loading) -> Void) throws(KokoroError) {
        (self.bundle, self.options, self.progress) = (bundle, options, progress)
        if let cache = options.cache { folder = cache } else {
            folder = try CoreMLBackend.caches().appendingPathComponent(bundle.folder.lastPathComponent, isDirectory: true)
        }
    }

    func program(_ name: String, _ input: String, _ lengths: [Int]) async throws -> CoreMLProgram {
        let network = try bundle.network(name), configuration = MLModelConfiguration()
        let isVocoder = name == "vocoder" || StreamingVocoder.outputs[name] != nil
        configuration.computeUnits = (isVocoder ? options.vocoderUnits : options.encoderUnits)
            ?? computeUnits(bundle.computeUnits(isVocoder ? "vocoder" : "encoder"))
        if network.function != "main" {
            guard #available(iOS 18, macOS 15, tvOS 18, watchOS 11, visionOS 2, *) else {
                throw KokoroError.unsupported("a package of several functions needs iOS 18; kokoro-ane build encoder --target iOS17 makes two")
            }
            configuration.functionName = network.function
        }
        for isFresh in [false, true] {
            let compiled = try await compiledPackage(network, isFresh: isFresh)
            progress(.opening(name))
            do {
                let opened = CoreMLProgram(try await MLModel.load(contentsOf: compiled, configuration: configuration), name: name)
                if try opened.takes(input, lengths) { return opened }
            } catch { if isFresh || network.isCompiled { throw CoreMLBackend.failure(name, error) } }
        }
        throw KokoroError.unsupported("the compiled \(name) has lost its lengths, twice: take the ONNX route on this system")
    }

    private func kept(_ network: SpeechBundle.Network) -> String { "\(network.described.packageSHA256).mlmodelc" }

    /// The package in the form that Core ML opens, kept under its hash. `isFresh`: the one that is there does not open.
    private func compiledPackage(_ network: SpeechBundle.Network, isFresh: Bool) async throws -> URL {
        if network.isCompiled { return network.file }
        let files = FileManager.default, kept = folder.appendingPathComponent(kept(network), isDirectory: true)
        if isFresh { try? files.removeItem(at: kept) }
        if files.fileExists(atPath: kept.path) { return kept }
        progress(.compiling(network.file.lastPathComponent))
        let fresh: URL
        do { fresh = try await MLModel.compileModel(at: network.file) } catch { throw CoreMLBackend.failure(network.file.lastPathComponent, error) }
        defer { try? files.removeItem(at: fresh) }
        do {
            try files.createDirectory(at: folder, withIntermediateDirectories: true)
            // another process may have been as fast
            if !files.fileExists(atPath: kept.path) { try files.moveItem(at: fresh, to: kept) }
        } catch { throw KokoroError(kept, error) }
        return kept
    }

    /// What this bundle's cache holds of packages that it has no more.
    func removeOthers() {
        let own = Set((bundle.manifest.encoder + [bundle.manifest.vocoder]).map { "\($0.packageSHA256).mlmodelc" })
        let files = FileManager.default, names = (try? files.contentsOfDirectory(atPath: folder.path)) ?? []
        for name in names where name.hasSuffix(".mlmodelc") && !own.contains(name) { try? files.removeItem(at: folder.appendingPathComponent(name)) }
    }
}

private func computeUnits(_ name: String) -> MLComputeUnits {
    switch name {
    case "CPU_AND_NE": .cpuAndNeuralEngine
    case "CPU_AND_GPU": .cpuAndGPU
    case "ALL": .all
    default: .cpuOnly
    }
}
#endif
