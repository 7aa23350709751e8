import Foundation
import KokoroSteps
import KokoroVectors

/// The bundle that the tests read: KOKORO_BUNDLE names its folder.
enum BundleUnderTest {
    static let folder = ProcessInfo.processInfo.environment["KOKORO_BUNDLE"].map { URL(fileURLWithPath: $0, isDirectory: true) }

    static func folderGiven() throws -> URL {
        guard let folder else { throw KokoroError.badFile("KOKORO_BUNDLE", reason: "names no bundle: swift/toolchain.sh test BUNDLE") }
        return folder
    }

    static func vectors() throws -> (index: VectorIndex, folder: URL) {
        let folder = try folderGiven().appendingPathComponent("vectors")
        return (try VectorIndex.read(folder), folder)
    }

    static func vocabulary() throws -> Vocabulary {
        let numbers = try JSONDecoder().decode([String: Int32].self, from: Data(contentsOf: folderGiven().appendingPathComponent("vocabulary.json")))
        let pairs = numbers.compactMap { key, number in key.unicodeScalars.first.map { ($0, number) } }
        return Vocabulary(Dictionary(uniqueKeysWithValues: pairs))
    }

    struct Manifest: Decodable {
        struct Encoder: Decodable { let alignment: Alignment }
        struct Alignment: Decodable {
            let tokenFrames: Int, totalFrames: Int
            enum CodingKeys: String, CodingKey { case tokenFrames = "token_frames", totalFrames = "total_frames" }
        }
        struct Vocoder: Decodable { let source: Source }
        struct Source: Decodable { let weights: [Double], bias: Double }
        let encoder: [Encoder], vocoder: Vocoder
    }

    static func manifest() throws -> Manifest {
        try JSONDecoder().decode(Manifest.self, from: Data(contentsOf: folderGiven().appendingPathComponent("manifest.json")))
    }
}
