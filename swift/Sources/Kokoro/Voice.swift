import Foundation
import KokoroSteps

/// Who speaks: a voice of the bundle by its name, a mixture of voices, or a table of the app's own.
///
/// ```swift
/// kokoro.speak(text, voice: "af_heart")
/// kokoro.speak(text, voice: Voice(blend: ["af_heart": 3, "bf_emma": 1], language: .britishEnglish))
/// ```
public struct Voice: Hashable, Sendable, Identifiable, ExpressibleByStringLiteral {
    /// What is read from text, and the letter that begins the names of its voices.
    public enum Language: String, CaseIterable, Sendable {
        case americanEnglish = "us", britishEnglish = "gb", spanish = "es", italian = "it", french = "fr", portuguese = "pt", mandarin = "zh", hindi = "hi"
        case japanese = "ja"
        var isEnglish: Bool { self == .americanEnglish || self == .britishEnglish }
        private static let letters: [Character: Language] = [
            "a": .americanEnglish, "b": .britishEnglish, "e": .spanish, "i": .italian, "f": .french, "p": .portuguese, "z": .mandarin,
            "h": .hindi, "j": .japanese,
        ]

        /// `bf_emma` is British, a name of another kind American; nil for a language that is not read from text.
        init?(voice name: String) {
            let isNamed = name.dropFirst().hasPrefix("f_") || name.dropFirst().hasPrefix("m_")
            guard let found = isNamed ? name.first.flatMap({ Self.letters[$0] }) : .americanEnglish else { return nil }
            self = found
        }
    }

    enum Source: Hashable { case bundled([Part]), file(URL) }
    struct Part: Hashable { let name: String, weight: Float }

    /// As the bundle has it, or made of its parts.
    public let name: String
    /// In which text is read; nil: give phonemes.
    public let language: Language?
    let source: Source
    public var id: String { name }

    /// A voice of the bundle. `language`: another than its name says.
    public init(_ name: String, language: Language? = nil) {
        self.init(name, language ?? Language(voice: name), .bundled([Part(name: name, weight: 1)]))
    }

    public init(stringLiteral name: String) { self.init(name) }

    /// The mean of voices of the bundle by weights above 0, which need not sum to 1.
    public init(blend: [String: Float], language: Language? = nil) {
        let parts = blend.sorted { $0.key < $1.key }.map { Part(name: $0.key, weight: $0.value) }
        self.init(parts.map { "\($0.name):\($0.weight)" }.joined(separator: "+"), language ?? parts.first.flatMap { Language(voice: $0.name) }, .bundled(parts))
    }

    /// A file as a bundle's `voices/NAME.style`, with NAME.statistics beside it where the bundle has such files.
    public init(file: URL, language: Language) { self.init(file.deletingPathExtension().lastPathComponent, language, .file(file)) }

    private init(_ name: String, _ language: Language?, _ source: Source) { (self.name, self.language, self.source) = (name, language, source) }
}

/// A voice's table [510, 1, 256] as pipeline/voice_file.py stores it, mapped: a mean row and the directions in which rows differ; or a blend.
/// With it what the voice adds to predicted statistics: two rows of 2R, where the style's line begins and the change up to its end.
package struct VoiceTable: Sendable {
    private struct Part { let table: Data, statistics: Data, weight: Float }
    private static let width = 2 * Contract.styleWidth
    /// Phonemes at both ends of the style's line, as core/voices.py has them.
    private static let short = 80, long = 300
    private let parts: [Part]

    /// `file`: little-endian float32; `isPredicted`: with statistics beside it, fp16. Throws `badFile` for a size that is no voice's.
    package init(file: URL, isPredicted: Bool) throws(KokoroError) {
        let data = try Self.mapped(file), beyond = data.count - 4 * Self.width
        guard beyond >= 0, beyond % (4 * (Contract.voiceRows + Self.width)) == 0
        else { throw .badFile(file.lastPathComponent, reason: "\(data.count) bytes are no voice") }
        let beside = file.deletingPathExtension().appendingPathExtension("statistics"), added = isPredicted ? try Self.mapped(beside) : Data()
        guard added.count % 8 == 0 else { throw .badFile(beside.lastPathComponent, reason: "\(added.count) bytes are no statistics of a voice") }
        parts = [Part(table: data, statistics: added, weight: 1)]
    }

    private static func mapped(_ file: URL) throws(KokoroError) -> Data {
        do { return try Data(contentsOf: file, options: .alwaysMapped) } catch { throw .badFile(file.lastPathComponent, reason: "missing or unreadable") }
    }

    /// Throws `unsupported` for weights that are not positive.
    init(blend: [(voice: VoiceTable, weight: Float)]) throws(KokoroError) {
        let total = blend.reduce(0) { $0 + $1.weight }
        guard !blend.isEmpty, blend.allSatisfy({ $0.weight > 0 && $0.weight.isFinite }) else { throw .unsupported("a blend needs weights above 0") }
        parts = blend.flatMap { voice, weight in voice.parts.map { Part(table: $0.table, statistics: $0.statistics, weight: $0.weight * weight / total) } }
    }

    /// [256 + 2R], for an utterance of so many phonemes: the style, then the statistics. Those of a blend are the mean of its parts'.
    package func row(phonemes: Int) throws(KokoroError) -> [Float] {
        let row = try VoiceStyle.rowIndex(phonemes: phonemes), rows = (parts.first?.statistics.count ?? 0) / 4
        var mean = [Double](repeating: 0, count: Self.width), added = [Float](repeating: 0, count: rows)
        for part in parts {
            let style = Self.style(part.table, row)
            for column in 0..<Self.width { mean[column] += Double(part.weight) * style[column] }
            guard part.statistics.count == 4 * rows else { throw .badFile("voices", reason: "statistics of a blend's parts differ in size") }
            let along = rows > 0 ? Float(Self.along(part.table, style)) : 0
            part.statistics.withUnsafeBytes { bytes in
                func value(_ place: Int) -> Float { HalfFloat.value(UInt16(littleEndian: bytes.loadUnaligned(fromByteOffset: 2 * place, as: UInt16.self))) }
                for place in 0..<rows { added[place] += part.weight * (value(place) + along * value(rows + place)) }
            }
        }
        return mean.map { Float($0) } + added
    }

    /// One row of a table [256], in double precision as in Python: the melody follows a float's last places.
    private static func style(_ table: Data, _ row: Int) -> [Double] {
        var found = [Double](repeating: 0, count: width)
        let directions = (table.count / 4 - width) / (Contract.voiceRows + width)
        table.withUnsafeBytes { bytes in
            func value(_ place: Int) -> Double { Double(Float(bitPattern: UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: 4 * place, as: UInt32.self)))) }
            for place in 0...directions {
                let length = place == 0 ? 1 : value((1 + directions) * width + row * directions + place - 1)
                for column in 0..<width { found[column] += length * value(place * width + column) }
            }
        }
        return found
    }

    /// Where the decoder's half of a style lies on the line from that of 80 phonemes (0) to that of 300 (1).
    private static func along(_ table: Data, _ style: [Double]) -> Double {
        let begin = self.style(table, short - 1), end = self.style(table, long - 1)
        var shared = 0.0, length = 0.0
        for column in 0..<Contract.styleWidth {
            let line = end[column] - begin[column]
            shared += (style[column] - begin[column]) * line
            length += line * line
        }
        return length > 0 ? shared / length : 0
    }
}
