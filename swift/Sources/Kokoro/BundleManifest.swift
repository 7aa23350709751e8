import Foundation

/// manifest.json of a bundle, as far as speaking needs it.
package struct BundleManifest: Decodable, Sendable {
    static let known = 3

    /// A file, relative to the bundle.
    package struct File: Decodable, Sendable { package let file: String, bytes: Int, sha256: String }
    /// Where the weights are from.
    package struct Checkpoint: Decodable, Sendable { package let name: String, sha256: String }
    /// Style tables.
    package struct Voices: Decodable, Sendable { package let files: [File], statistics: [File]? }
    /// What is known without reading it.
    package struct Described: Decodable, Sendable {}
    /// A package: `file` is its own manifest.
    package struct Package: Decodable, Sendable {
        package let file: String, package: String, packageSHA256: String
        package let buckets: [Int]?, tokenBuckets: [Int]?, functions: [String: String]?, inputs: [String: Described]?
        package let source: Source?
        let limits: Alignment?
        var alignment: Alignment { limits ?? Alignment(tokenFrames: .max, totalFrames: .max) }

        enum CodingKeys: String, CodingKey {
            case file, package, buckets, functions, source, inputs
            case packageSHA256 = "package_sha256", tokenBuckets = "token_buckets", limits = "alignment"
        }
    }
    /// Frames that a token, and an utterance, last at most.
    package struct Alignment: Decodable, Sendable {
        package let tokenFrames: Int, totalFrames: Int
        enum CodingKeys: String, CodingKey { case tokenFrames = "token_frames", totalFrames = "total_frames" }
    }
    /// The voice's ten weights of the harmonic source.
    package struct Source: Decodable, Sendable { package let weights: [Double], bias: Double }

    package let format: Int, layout: String, method: String, checkpoint: Checkpoint
    package let encoder: [Package], vocoder: Package, vocabulary: File, voices: Voices, text: [File], advisories: [Advisory]?, computeUnits: [Advisory]?

    enum CodingKeys: String, CodingKey {
        case format, layout, method, checkpoint, encoder, vocoder, vocabulary, voices, text, advisories, computeUnits = "compute_units"
    }
}

/// What was reported of Core ML on systems from one version to before another, and on chips, by a word of their name or the begin of the
/// machine's; and where it computes a stage there.
public struct Advisory: Decodable, Sendable {
    public let says: String, sources: [String]
    package let systems: [String], from: [Int], below: [Int]?, chips: [String]?, stage: String?, units: String?

    func holds(_ device: Device) -> Bool {
        let words = device.chip.split(separator: " ").map(String.init)
        return systems.contains(device.system) && !device.version.lexicographicallyPrecedes(from)
            && device.version.lexicographicallyPrecedes(below ?? [.max])
            && chips.map { $0.contains { $0.isEmpty || words.contains($0) || device.machine.hasPrefix($0) } } ?? true
    }
}

/// A device, as far as the tables of a bundle name it.
package struct Device: Sendable {
    /// As "iOS", [27, 1], "Apple M5 Pro" (a Mac's), "iPad17,2".
    package let system: String, version: [Int], chip: String, machine: String

    package init(system: String, version: [Int], chip: String = "", machine: String = "") {
        (self.system, self.version, self.chip, self.machine) = (system, version, chip, machine)
    }

    package static var current: Device {
        let version = ProcessInfo.processInfo.operatingSystemVersion
        var names = utsname()
        uname(&names)
        let machine = withUnsafeBytes(of: &names.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        return Device(system: system, version: [version.majorVersion, version.minorVersion], chip: chip(), machine: machine)
    }

    #if os(macOS)
    private static let system = "macOS"
    #elseif os(tvOS)
    private static let system = "tvOS"
    #elseif os(watchOS)
    private static let system = "watchOS"
    #elseif os(visionOS)
    private static let system = "visionOS"
    #elseif os(iOS)
    private static let system = "iOS"
    #else
    private static let system = "none of Apple's"
    #endif

    private static func chip() -> String {
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
}

/// What manifest.json says of a vocoder of several functions.
struct StreamingManifest: Decodable {
    struct Vocoder: Decodable { let inputs: [String: Inputs] }
    struct Inputs: Decodable { let features: Lengths }
    struct Lengths: Decodable { let frames: [Int] }
    let vocoder: Vocoder
}

/// The manifest beside a package.
struct PackageManifest: Decodable {
    let checkpoint: BundleManifest.Checkpoint
}
