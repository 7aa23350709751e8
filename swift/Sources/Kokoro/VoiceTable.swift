import Foundation
import KokoroSteps

/// A voice's table [510, 1, 256] as pipeline/voice_file.py stores it, mapped: a mean row and the directions in which rows differ; or a blend.
public struct VoiceTable: Sendable {
    private static let width = 2 * Contract.styleWidth
    private let parts: [(table: Data, weight: Float)]

    /// `file`: little-endian float32. Throws `badFile` for a size that is no voice's.
    public init(file: URL) throws(KokoroError) {
        let name = file.lastPathComponent, data: Data
        do { data = try Data(contentsOf: file, options: .alwaysMapped) } catch { throw .badFile(name, reason: "missing or unreadable") }
        let beyond = data.count - 4 * Self.width
        guard beyond >= 0, beyond % (4 * (Contract.voiceRows + Self.width)) == 0 else { throw .badFile(name, reason: "\(data.count) bytes are no voice") }
        parts = [(data, 1)]
    }

    /// The mean of voices by weights that need not sum to 1. Throws `unsupported` for weights that are not positive.
    public init(blend: [(voice: VoiceTable, weight: Float)]) throws(KokoroError) {
        let total = blend.reduce(0) { $0 + $1.weight }
        guard !blend.isEmpty, blend.allSatisfy({ $0.weight > 0 && $0.weight.isFinite }) else { throw .unsupported("a blend needs weights above 0") }
        parts = blend.flatMap { voice, weight in voice.parts.map { ($0.table, $0.weight * weight / total) } }
    }

    /// [256], for an utterance of so many phonemes.
    public func row(phonemes: Int) throws(KokoroError) -> [Float] {
        let row = try VoiceStyle.rowIndex(phonemes: phonemes), width = Self.width
        var mean = [Double](repeating: 0, count: width)  // as Python: the melody follows a float's last places
        for (table, weight) in parts {
            let directions = (table.count / 4 - width) / (Contract.voiceRows + width)
            table.withUnsafeBytes { bytes in
                func value(_ place: Int) -> Double { Double(Float(bitPattern: UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 4 * place, as: UInt32.self)))) }
                for place in 0...directions {
                    let length = place == 0 ? 1 : value((1 + directions) * width + row * directions + place - 1)
                    for column in 0..<width { mean[column] += Double(weight) * length * value(place * width + column) }
                }
            }
        }
        return mean.map { Float($0) }
    }
}
