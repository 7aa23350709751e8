#if canImport(CoreML)
import CoreML
import Foundation
import KokoroSteps

/// Where Core ML computes, and where it keeps what it compiled.
public struct CoreMLOptions: Sendable {
    /// Of the encoder; nil: as the bundle's manifest says for this chip. iOS names no chip, so on an M5 iPad give `.cpuOnly`.
    public var encoderUnits: MLComputeUnits?
    /// Of the vocoder, which was written for the Neural Engine.
    public var vocoderUnits = MLComputeUnits.cpuAndNeuralEngine
    /// Folder for compiled packages, one for each package's hash; nil: the user's caches.
    public var cache: URL?
    public init() {}
}

/// The networks of a bundle's Core ML packages.
///
/// The first start on a device compiles them, which takes seconds; later ones find them in the cache. Before the first call the compiled
/// program is asked for its lengths: programs that had lost them were reported to give NaN.
public struct CoreMLBackend: SpeechBackend {
    public let tokenBuckets: Buckets, frameBuckets: Buckets, vocoderBuckets: Buckets
    public let streaming: StreamingVocoder?
    private let duration: CoreMLProgram, melody: CoreMLProgram, vocoder: CoreMLProgram?

    /// Throws `unsupported` for a bundle of ONNX files or a program without its lengths, `backend` with Core ML's words.
    public init(bundle: SpeechBundle, options: CoreMLOptions = CoreMLOptions()) async throws {
        guard !bundle.isOnnx else { throw KokoroError.unsupported("the bundle holds ONNX files, not Core ML packages") }
        tokenBuckets = try bundle.buckets(\.tokenBuckets, of: "duration")
        frameBuckets = try bundle.buckets(\.buckets, of: "prosody")
        vocoderBuckets = try bundle.buckets(\.buckets, of: "vocoder")
        duration = try await Self.program(bundle, "duration", options)
        melody = try await Self.program(bundle, "prosody", options)
        try duration.requireLengths("input_ids", tokenBuckets.lengths)
        try melody.requireLengths("frames", frameBuckets.lengths)
        func part(_ name: String, _ lengths: [Int]) async throws -> CoreMLProgram {
            let opened = try await Self.program(bundle, name, options)
            try opened.requireLengths("features", lengths.map { $0 + 1 })
            return opened
        }
        guard let lengths = try bundle.streamingLengths() else {
            (vocoder, streaming) = (try await part("vocoder", vocoderBuckets.lengths), nil)
            return
        }
        func function(_ name: String, _ lengths: [Int]) async throws -> StreamingVocoder.Function {
            let opened = try await part(name, lengths), outputs = StreamingVocoder.outputs[name] ?? []
            return { inputs in try opened(Dictionary(uniqueKeysWithValues: inputs.map { ($0.name, CoreMLInput($0.value)) }), outputs: outputs) }
        }
        vocoder = nil
        streaming = StreamingVocoder(
            lengths, decoder: try await function("decoder", lengths.decoder.lengths),
            utterance: try await function("utterance", lengths.utterance.lengths), window: try await function("window", lengths.windows))
    }

    public func durations(ids: [Int32], style: [Float], speed: Float) throws -> EncodedText {
        let found = try duration([
            "input_ids": CoreMLInput(shape: [1, ids.count], values: ids.map { Float($0) }),
            "style": CoreMLInput(shape: [1, style.count], values: style), "speed": CoreMLInput(shape: [1], values: [speed]),
        ], outputs: ["durations", "hidden", "text"])
        return EncodedText(raw: found[0].values, hidden: found[1], text: found[2])
    }

    public func prosody(frames: Tensor, style: [Float]) throws -> Prosody {
        let given = ["frames": CoreMLInput(frames), "style": CoreMLInput(shape: [1, style.count], values: style)]
        let found = try melody(given, outputs: ["f0_hz", "energy"])
        return Prosody(f0Hz: found[0].values, energy: found[1].values)
    }

    public func waveform(features: Tensor, style: [Float]) throws -> [Float] {
        let given = ["features": CoreMLInput(features), "style": CoreMLInput(shape: [1, style.count, 1, 1], values: style)]
        return try vocoder?(given, outputs: ["waveform"])[0].values ?? []
    }

    private static func program(_ bundle: SpeechBundle, _ name: String, _ options: CoreMLOptions) async throws -> CoreMLProgram {
        let network = try bundle.network(name), configuration = MLModelConfiguration()
        configuration.computeUnits = name == "vocoder" || StreamingVocoder.outputs[name] != nil
            ? options.vocoderUnits : options.encoderUnits ?? declaredUnits(network.described.computeUnits ?? [:], chip: chipName())
        if network.function != "main" {
            guard #available(iOS 18, macOS 15, *) else {
                throw KokoroError.unsupported("a package of several functions needs iOS 18; kokoro-ane build encoder --target iOS17 makes two")
            }
            configuration.functionName = network.function
        }
        let compiled = try await compiledPackage(network, cache: options.cache)
        do { return CoreMLProgram(try MLModel(contentsOf: compiled, configuration: configuration), name: name) } catch {
            throw KokoroError.backend("Core ML: \(error.localizedDescription)")
        }
    }

    /// The package in the form that Core ML opens, kept under its hash.
    private static func compiledPackage(_ network: SpeechBundle.Network, cache: URL?) async throws -> URL {
        if network.file.pathExtension == "mlmodelc" { return network.file }
        let files = FileManager.default
        let folder = try cache ?? files.url(for: .cachesDirectory, in: .userDomainMask, appropriateFor: nil, create: true)
            .appendingPathComponent("kokoro", isDirectory: true)
        let kept = folder.appendingPathComponent("\(network.described.packageSHA256).mlmodelc", isDirectory: true)
        if files.fileExists(atPath: kept.path) { return kept }
        try files.createDirectory(at: folder, withIntermediateDirectories: true)
        let fresh = try await MLModel.compileModel(at: network.file)
        if (try? files.moveItem(at: fresh, to: kept)) == nil, !files.fileExists(atPath: kept.path) {
            throw KokoroError.badFile(kept.lastPathComponent, reason: "no space for the compiled package")
        }
        return kept
    }
}

/// The compute units that a manifest declares for a chip, its default elsewhere: ["default": "CPU_AND_GPU", "M5": "CPU_ONLY"].
func declaredUnits(_ declared: [String: String], chip: String) -> MLComputeUnits {
    let words = chip.split(separator: " ").map(String.init)
    let name = words.compactMap { declared[$0] }.first ?? declared["default"]
    return switch name {
    case "CPU_ONLY": .cpuOnly
    case "CPU_AND_NE": .cpuAndNeuralEngine
    case "ALL": .all
    default: .cpuAndGPU
    }
}

/// "Apple M4 Pro" on a Mac; iOS does not say.
private func chipName() -> String {
    #if os(macOS)
    var size = 0
    sysctlbyname("machdep.cpu.brand_string", nil, &size, nil, 0)
    var bytes = [UInt8](repeating: 0, count: size)
    sysctlbyname("machdep.cpu.brand_string", &bytes, &size, nil, 0)
    return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    #else
    return ""
    #endif
}
#endif
