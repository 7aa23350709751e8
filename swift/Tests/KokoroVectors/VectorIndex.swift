import Foundation
import KokoroSteps

/// How near a port's tensor has to come to the stored one.
package enum Nearness: Decodable, Equatable, Sendable {
    /// Every element.
    case equal
    /// 10 log10 of the stored power over the power of the difference.
    case decibels(Double)

    private enum Key: String, CodingKey { case least = "snr_db_at_least" }

    package init(from decoder: any Decoder) throws {
        if let words = try? decoder.singleValueContainer().decode(String.self) {
            guard words == "equal" else { throw KokoroError.badFile("index.json", reason: "tolerance \(words)") }
            self = .equal
        } else {
            self = .decibels(try decoder.container(keyedBy: Key.self).decode(Double.self, forKey: .least))
        }
    }

    /// The least SNR in dB.
    package var leastDB: Double { if case .decibels(let least) = self { least } else { .infinity } }
}

/// index.json of a folder of test vectors, as far as a port reads it.
package struct VectorIndex: Decodable, Sendable {
    /// One step: its name, the tensors that it reads, and how near those that it writes have to come.
    package struct Step: Decodable, Sendable { package let name: String, reads: [String], writes: [String: Nearness] }
    /// A tensor's file, relative to the index.
    package struct Stored: Decodable, Sendable { package let file: String }
    /// One utterance with all its tensors.
    package struct Utterance: Decodable, Sendable {
        package let id: String, phonemes: String, speed: Double, seed: Int, tensors: [String: Stored]
    }
    /// A chunk of the joined text, its samples counted from the beginning of the audio.
    package struct Chunk: Decodable, Sendable {
        package struct Word: Decodable, Sendable { package let text: String, start: Int, end: Int }
        package let phonemes: String, ending: String, pauseSamples: Int, startSample: Int, samples: Int, seed: Int, durations: [Int], edges: [Int], words: [Word]
        enum CodingKeys: String, CodingKey {
            case phonemes, ending, samples, seed, durations, edges, words, pauseSamples = "pause_samples", startSample = "start_sample"
        }
    }
    /// The text of several chunks.
    package struct Text: Decodable, Sendable {
        package let phonemes: String, seed: Int, speed: Double, longestPhonemes: Int, chunks: [Chunk], file: String
        enum CodingKeys: String, CodingKey { case phonemes, seed, speed, chunks, file, longestPhonemes = "longest_phonemes" }
    }
    package let buckets: [String: [Int]], steps: [Step], utterances: [Utterance], text: Text

    /// From a folder that `kokoro-ane vectors` or `kokoro-ane bundle` wrote.
    package static func read(_ folder: URL) throws -> VectorIndex {
        try JSONDecoder().decode(VectorIndex.self, from: Data(contentsOf: folder.appendingPathComponent("index.json")))
    }
}

/// The stored tensors of one utterance.
package struct StoredUtterance: Sendable {
    package let utterance: VectorIndex.Utterance, folder: URL

    package init(_ utterance: VectorIndex.Utterance, in folder: URL) {
        self.utterance = utterance
        self.folder = folder
    }

    /// Throws `badFile` for a tensor that the index does not name.
    package func callAsFunction(_ name: String) throws -> NumpyFile {
        guard let stored = utterance.tensors[name] else { throw KokoroError.badFile("index.json", reason: "no tensor \(name)") }
        return try NumpyFile(folder.appendingPathComponent(stored.file))
    }

    /// The phonemes as Unicode scalars.
    package var phonemes: [Unicode.Scalar] { Array(utterance.phonemes.unicodeScalars) }
}

/// SNR in dB of `found` against `wanted`: infinite where they are equal, -infinite where they are of two lengths.
package func snrDB(_ wanted: [Double], _ found: [Double]) -> Double {
    guard wanted.count == found.count else { return -.infinity }
    var signal = 0.0, noise = 0.0
    for (want, got) in zip(wanted, found) {
        signal += want * want
        noise += (want - got) * (want - got)
    }
    return noise == 0 ? .infinity : 10 * log10(signal / noise)
}

/// What a spectrum [22, S] of magnitudes and phases is compared by: real parts, imaginary parts, and magnitude times phase, which alone
/// tells +pi from -pi and lets the phase of silence be anything.
package func comparable(spectrum: [Double]) -> [Double] {
    let magnitudes = spectrum.prefix(spectrum.count / 2), phases = spectrum.suffix(spectrum.count / 2), both = zip(magnitudes, phases)
    return both.map { $0 * cos($1) } + both.map { $0 * sin($1) } + both.map { $0 * $1 }
}
