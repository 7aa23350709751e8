import Foundation
import KokoroSteps

/// A voice's table [510, 1, 256], mapped into memory and read by rows; or a blend of several.
public struct VoiceTable: Sendable {
    private static let rowValues = 2 * Contract.styleWidth, rowBytes = 4 * rowValues
    private let parts: [(data: Data, weight: Float)]

    /// `file`: raw little-endian float32. Throws `badFile` for another size.
    public init(file: URL) throws(KokoroError) {
        let name = file.lastPathComponent, data: Data
        do { data = try Data(contentsOf: file, options: .alwaysMapped) } catch { throw .badFile(name, reason: "missing or unreadable") }
        guard data.count == Contract.voiceRows * Self.rowBytes else {
            throw .badFile(name, reason: "\(data.count) bytes, not \(Contract.voiceRows * Self.rowBytes)")
        }
        parts = [(data, 1)]
    }

    /// The mean of voices by weights that need not sum to 1. Throws `unsupported` for weights that are not positive.
    public init(blend: [(voice: VoiceTable, weight: Float)]) throws(KokoroError) {
        let total = blend.reduce(0) { $0 + $1.weight }
        guard !blend.isEmpty, blend.allSatisfy({ $0.weight > 0 && $0.weight.isFinite }) else { throw .unsupported("a blend needs weights above 0") }
        parts = blend.flatMap { voice, weight in voice.parts.map { ($0.data, $0.weight * weight / total) } }
    }

    /// [256], for an utterance of so many phonemes.
    public func row(phonemes: Int) throws(KokoroError) -> [Float] {
        let start = try VoiceStyle.rowIndex(phonemes: phonemes) * Self.rowBytes
        var mean = [Float](repeating: 0, count: Self.rowValues)
        for part in parts {
            part.data.withUnsafeBytes { bytes in
                for place in mean.indices {
                    let bits = UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: start + 4 * place, as: UInt32.self))
                    mean[place] += part.weight * Float(bitPattern: bits)
                }
            }
        }
        return mean
    }
}
