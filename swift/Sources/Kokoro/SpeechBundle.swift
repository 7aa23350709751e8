import Foundation
import KokoroSteps

/// A folder that `kokoro-ane bundle` wrote: packages, voices, vocabulary, and the manifest that ties them together.
public struct SpeechBundle: Sendable {
    /// Where it lies.
    public let folder: URL
    package let manifest: BundleManifest
    package let vocabulary: Vocabulary

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

    /// The languages that are read from text.
    public var languages: [Voice.Language] { Voice.Language.allCases.filter(reads) }

    func reads(_ language: Voice.Language) -> Bool { manifest.text.contains { $0.file == "text/\(language.rawValue).rules" } }

    /// Whether the vocoder predicts the statistics of long sentences, so that each voice has its own.
    private var isPredicted: Bool { manifest.layout != "padded" }

    /// A voice's table, mapped and not read. Throws `unknownVoice`, `badFile`.
    package func table(of voice: Voice) throws(KokoroError) -> VoiceTable {
        guard case .bundled(let parts) = voice.source else {
            guard case .file(let file) = voice.source else { throw .unknownVoice(voice.name, known: voices) }
            return try VoiceTable(file: file, isPredicted: isPredicted)
        }
        var tables: [(VoiceTable, Float)] = []
        for part in parts {
            guard voices.contains(part.name) else { throw .unknownVoice(part.name, known: voices) }
            tables.append((try VoiceTable(file: folder.appendingPathComponent("voices/\(part.name).style"), isPredicted: isPredicted), part.weight))
        }
        return try parts.count == 1 ? tables[0].0 : VoiceTable(blend: tables)
    }

    /// Whether the networks are ONNX files, to be computed by ONNX Runtime at exact length, or Core ML packages.
    public var isOnnx: Bool { manifest.vocoder.package.hasSuffix(".onnx") }

    /// What was reported of Core ML on this system, to be shown at start.
    public var advisories: [Advisory] { advisories(.current) }

    package func advisories(_ device: Device) -> [Advisory] { (manifest.advisories ?? []).filter { $0.holds(device) } }

    /// Where Core ML computes each stage on this device, if the app does not choose.
    public var units: [String: String] { ["encoder": computeUnits("encoder"), "vocoder": computeUnits("vocoder")] }

    /// Where a stage is computed on a device, by what was reported of it: the first row of the bundle's table that holds; on the CPU without one.
    package func computeUnits(_ stage: String, _ device: Device = .current) -> String {
        manifest.computeUnits?.first { $0.stage == stage && $0.holds(device) }?.units ?? "CPU_ONLY"
    }

    /// Longest durations that are taken from the encoder.
    var limits: DurationLimits {
        let least = manifest.encoder.map(\.alignment), frames = least.map(\.totalFrames) + [manifest.vocoder.buckets?.last ?? .max]
        return DurationLimits(tokenFrames: least.map(\.tokenFrames).min() ?? 0, totalFrames: frames.min() ?? 0)
    }

    /// Lengths of the vocoder's functions where it is of a streaming layout; nil of another.
    package func streamingLengths() throws(KokoroError) -> StreamingLengths? {
        guard manifest.layout != "padded" else { return nil }
        let inputs = try decoded(StreamingManifest.self, folder.appendingPathComponent("manifest.json")).vocoder.inputs
        let frames = ["decoder", "utterance", "window"].map { inputs[$0]?.features.frames ?? [] }
        return try StreamingLengths(
            decoder: Buckets(isOnnx ? [] : frames[0]), utterance: Buckets(isOnnx ? [] : frames[1]), longest: frames[1].last ?? 0, windows: frames[2])
    }

    /// A network's file, its function's name inside, and what the manifest says of it; `function` is `duration`, `prosody` or `vocoder`, or
    /// of a streaming layout's vocoder `decoder`, `utterance` or `window`.
    package func network(_ function: String) throws(KokoroError) -> Network {
        if function == "vocoder" { return Network(self, manifest.vocoder, function: "main") }
        if StreamingVocoder.outputs[function] != nil { return Network(self, manifest.vocoder, function: function) }
        for part in manifest.encoder { if let name = part.functions?[function] { return Network(self, part, function: name) } }
        throw .badFile("manifest.json", reason: "no package has the function \(function)")
    }

    /// Lengths of the buckets, or none where the files take any length.
    package func buckets(_ keyPath: KeyPath<BundleManifest.Package, [Int]?>, of function: String) throws(KokoroError) -> Buckets {
        isOnnx ? Buckets([]) : Buckets(try network(function).described[keyPath: keyPath] ?? [])
    }

    /// One network of the bundle.
    package struct Network: Sendable {
        /// The .mlpackage or .onnx, the function's name inside, and the manifest's entry.
        package let file: URL, function: String, described: BundleManifest.Package, isCompiled: Bool

        init(_ bundle: SpeechBundle, _ part: BundleManifest.Package, function: String) {
            let package = bundle.folder.appendingPathComponent(part.package), isInside = bundle.isOnnx && StreamingVocoder.outputs[function] != nil
            isCompiled = package.pathExtension == "mlmodelc"
            file = isInside ? package.appendingPathComponent("\(function).onnx") : package
            self.function = function
            described = part
        }
    }

    private func requireWhole() throws(KokoroError) {
        for entry in [manifest.vocabulary] + manifest.voices.files + (manifest.voices.statistics ?? []) + manifest.text {
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

    /// Throws `badFile` for a file that reads text and is not as it was written: a flipped bit there would stop a program.
    func requireIntactText(_ language: Voice.Language) throws(KokoroError) {
        for entry in manifest.text where entry.file.hasPrefix("text/\(language.rawValue).") {
            guard try SHA256.hash(of: folder.appendingPathComponent(entry.file)) == entry.sha256 else {
                throw .badFile(entry.file, reason: "its hash is another: copy the bundle again")
            }
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
    public var recoverySuggestion: String? { recovery }

    /// What the system says, as an error of this package.
    init(_ file: URL, _ error: any Error) {
        let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? NSError ?? error as NSError
        self = error as? KokoroError ?? .disk(file.lastPathComponent, reason: cause.localizedDescription)
    }
}
