/// manifest.json of a bundle, as far as speaking needs it.
public struct BundleManifest: Decodable, Sendable {
    static let known = 3

    /// A file, relative to the bundle.
    public struct File: Decodable, Sendable { public let file: String, bytes: Int }
    /// Where the weights are from.
    public struct Checkpoint: Decodable, Sendable { public let name: String, sha256: String }
    /// Style tables.
    public struct Voices: Decodable, Sendable { public let files: [File] }
    /// A package: `file` is its own manifest.
    public struct Package: Decodable, Sendable {
        public let file: String, package: String, packageSHA256: String
        public let buckets: [Int]?, tokenBuckets: [Int]?, functions: [String: String]?, computeUnits: [String: String]?
        public let source: Source?
        let limits: Alignment?
        var alignment: Alignment { limits ?? Alignment(tokenFrames: .max, totalFrames: .max) }

        enum CodingKeys: String, CodingKey {
            case file, package, buckets, functions, source
            case packageSHA256 = "package_sha256", tokenBuckets = "token_buckets", computeUnits = "compute_units", limits = "alignment"
        }
    }
    /// Frames that a token, and an utterance, last at most.
    public struct Alignment: Decodable, Sendable {
        public let tokenFrames: Int, totalFrames: Int
        enum CodingKeys: String, CodingKey { case tokenFrames = "token_frames", totalFrames = "total_frames" }
    }
    /// What was reported of systems from one version to before another.
    public struct Advisory: Decodable, Sendable {
        public let systems: [String], from: [Int], below: [Int]?, says: String, sources: [String]
    }
    /// The voice's ten weights of the harmonic source.
    public struct Source: Decodable, Sendable { public let weights: [Double], bias: Double }

    public let format: Int, layout: String, method: String, checkpoint: Checkpoint
    public let encoder: [Package], vocoder: Package, vocabulary: File, voices: Voices, text: [File], advisories: [Advisory]?
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
