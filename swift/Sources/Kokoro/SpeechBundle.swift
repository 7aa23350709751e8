import Foundation
import KokoroSteps

/// A folder that `kokoro-ane bundle` wrote: packages, voices, vocabulary, and the manifest that ties them together.
public struct SpeechBundle: Sendable {
    /// Where it lies.
    public let folder: URL
    let manifest: BundleManifest
    let vocabulary: Vocabulary

    /// Throws `badFile` for a missing or damaged part, `mixedCheckpoints` where the parts do not belong together, and `unsupported` for a
    /// layout of the vocoder that this package does not pack.
    public init(at folder: URL) throws(KokoroError) {
        self.folder = folder
        manifest = try decoded(BundleManifest.self, folder.appendingPathComponent("manifest.json"))
        guard manifest.format == BundleManifest.known else {
            throw .badFile("manifest.json", reason: "format \(manifest.format), not \(BundleManifest.known): bundle again, or update this package")
        }
        guard ["padded", "streaming", "streaming-poly"].contains(manifest.layout) else {
            throw .unsupported("layout \(manifest.layout): bundle the padded or the streaming one")
        }
        vocabulary = try Self.vocabulary(folder.appendingPathComponent(manifest.vocabulary.file))
        try requireWhole()
    }

    /// Names of the voices, sorted.
    public var voices: [String] {
        manifest.voices.files.filter { $0.file.hasSuffix(".style") }.map { ($0.file as NSString).lastPathComponent }.map { String($0.dropLast(6)) }.sorted()
    }

    /// A voice by its name, its table mapped and not read. Throws `unknownVoice`, `badFile`.
    public func voice(_ name: String) throws(KokoroError) -> VoiceTable {
        guard voices.contains(name) else { throw .unknownVoice(name, known: voices) }
        return try VoiceTable(file: folder.appendingPathComponent("voices/\(name).style"))
    }

    /// Whether the networks are ONNX files, to be computed by ONNX Runtime at exact length, or Core ML packages.
    public var isOnnx: Bool { manifest.vocoder.package.hasSuffix(".onnx") }

    /// What was reported of Core ML on this system, to be shown at start.
    public var advisories: [BundleManifest.Advisory] {
        let version = ProcessInfo.processInfo.operatingSystemVersion
        #if os(macOS)
        let system = "macOS"
        #else
        let system = "iOS"
        #endif
        return advisories(system, [version.majorVersion, version.minorVersion])
    }

    /// The same of `iOS` or `macOS`.
    public func advisories(_ system: String, _ version: [Int]) -> [BundleManifest.Advisory] {
        (manifest.advisories ?? []).filter { advisory in
            advisory.systems.contains(system) && !version.lexicographicallyPrecedes(advisory.from)
                && version.lexicographicallyPrecedes(advisory.below ?? [.max])
        }
    }

    /// Longest durations that are taken from the encoder.
    var limits: DurationLimits {
        let least = manifest.encoder.map(\.alignment), frames = least.map(\.totalFrames) + [manifest.vocoder.buckets?.last ?? .max]
        return DurationLimits(tokenFrames: least.map(\.tokenFrames).min() ?? 0, totalFrames: frames.min() ?? 0)
    }

    /// Lengths of the vocoder's functions where it is of a streaming layout; nil of another.
    public func streamingLengths() throws(KokoroError) -> StreamingLengths? {
        guard manifest.layout != "padded" else { return nil }
        let inputs = try decoded(StreamingManifest.self, folder.appendingPathComponent("manifest.json")).vocoder.inputs
        let frames = ["decoder", "utterance", "window"].map { inputs[$0]?.features.frames ?? [] }
        return try StreamingLengths(
            decoder: Buckets(isOnnx ? [] : frames[0]), utterance: Buckets(isOnnx ? [] : frames[1]), longest: frames[1].last ?? 0, windows: frames[2])
    }

    /// A network's file, its function's name inside, and what the manifest says of it; `function` is `duration`, `prosody` or `vocoder`, or
    /// of a streaming layout's vocoder `decoder`, `utterance` or `window`.
    public func network(_ function: String) throws(KokoroError) -> Network {
        if function == "vocoder" { return Network(self, manifest.vocoder, function: "main") }
        if StreamingVocoder.outputs[function] != nil { return Network(self, manifest.vocoder, function: function) }
        for part in manifest.encoder { if let name = part.functions?[function] { return Network(self, part, function: name) } }
        throw .badFile("manifest.json", reason: "no package has the function \(function)")
    }

    /// Lengths of the buckets, or none where the files take any length.
    public func buckets(_ keyPath: KeyPath<BundleManifest.Package, [Int]?>, of function: String) throws(KokoroError) -> Buckets {
        isOnnx ? Buckets([]) : Buckets(try network(function).described[keyPath: keyPath] ?? [])
    }

    /// One network of the bundle.
    public struct Network: Sendable {
        /// The .mlpackage or .onnx, the function's name inside, and the manifest's entry.
        public let file: URL, function: String, described: BundleManifest.Package

        init(_ bundle: SpeechBundle, _ part: BundleManifest.Package, function: String) {
            let package = bundle.folder.appendingPathComponent(part.package), isInside = bundle.isOnnx && StreamingVocoder.outputs[function] != nil
            file = isInside ? package.appendingPathComponent("\(function).onnx") : package
            self.function = function
            described = part
        }
    }

    private func requireWhole() throws(KokoroError) {
        for entry in [manifest.vocabulary] + manifest.voices.files + manifest.text {
            let size = (try? FileManager.default.attributesOfItem(atPath: folder.appendingPathComponent(entry.file).path))?[.size] as? Int
            guard let size else { throw .badFile(entry.file, reason: "missing from the bundle") }
            guard size == entry.bytes else { throw .badFile(entry.file, reason: "\(size) bytes, not \(entry.bytes): copy the bundle again") }
        }
        for part in manifest.encoder + [manifest.vocoder] {
            guard FileManager.default.fileExists(atPath: folder.appendingPathComponent(part.package).path) else {
                throw .badFile(part.package, reason: "missing from the bundle")
            }
            let own = try decoded(PackageManifest.self, folder.appendingPathComponent(part.file))
            guard own.checkpoint.sha256 == manifest.checkpoint.sha256 else { throw .mixedCheckpoints(part.file) }
        }
    }

    private static func vocabulary(_ file: URL) throws(KokoroError) -> Vocabulary {
        // Swift compares strings by canonical equivalence, Unicode scalars by value.
        var numbers: [Unicode.Scalar: Int32] = [:]
        for (symbol, number) in try decoded([String: Int32].self, file) {
            guard let scalar = symbol.unicodeScalars.first, symbol.unicodeScalars.count == 1 else {
                throw .badFile(file.lastPathComponent, reason: "\(symbol) is not one symbol")
            }
            numbers[scalar] = number
        }
        return Vocabulary(numbers)
    }
}

/// Throws `badFile` for what is missing, no JSON, or lacks a key.
func decoded<Value: Decodable>(_: Value.Type, _ file: URL) throws(KokoroError) -> Value {
    let data: Data
    do { data = try Data(contentsOf: file) } catch { throw .badFile(file.lastPathComponent, reason: "missing or unreadable") }
    do { return try JSONDecoder().decode(Value.self, from: data) } catch {
        throw .badFile(file.lastPathComponent, reason: "not as `kokoro-ane bundle` writes it (\(shortened(error)))")
    }
}

private func shortened(_ error: any Error) -> String {
    guard let error = error as? DecodingError else { return "no JSON" }
    switch error {
    case .keyNotFound(let key, _): return "no \(key.stringValue)"
    case .typeMismatch(_, let context), .valueNotFound(_, let context):
        return "another kind at \(context.codingPath.map(\.stringValue).joined(separator: "."))"
    default: return "no JSON"
    }
}

extension KokoroError: LocalizedError {
    /// The same line as `description`.
    public var errorDescription: String? { description }
}
