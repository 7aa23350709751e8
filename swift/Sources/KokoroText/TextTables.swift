import Foundation
import KokoroSteps

/// text/us.json and text/us.bin of a bundle: the rules as they are written there, and the arrays, mapped into memory.
struct TextTables: Sendable {
    let rules: TextRules
    private let data: Data

    /// `folder`: the bundle's `text`. Throws `badFile`.
    init(folder: URL, dialect: String) throws(KokoroError) {
        let file = folder.appendingPathComponent("\(dialect).json")
        do { rules = try JSONDecoder().decode(TextRules.self, from: Data(contentsOf: file)) } catch {
            throw .badFile(file.lastPathComponent, reason: "missing, or not as `kokoro-ane bundle` writes it")
        }
        guard rules.format == 4 else { throw .badFile(file.lastPathComponent, reason: "format \(rules.format), not 4: bundle again") }
        let tables = folder.appendingPathComponent("\(dialect).bin")
        do { data = try Data(contentsOf: tables, options: .alwaysMapped) } catch { throw .badFile(tables.lastPathComponent, reason: "missing") }
        for (name, place) in rules.arrays {
            guard let width = Self.widths[place.dtype], place.offset >= 0, place.offset + width * place.count <= data.count else {
                throw .badFile(tables.lastPathComponent, reason: "no room for \(name)")
            }
        }
    }

    private static let widths = ["int8": 1, "float32": 4, "uint32": 4]

    /// A matrix of int8 as it lies in the file, and its scales.
    func mapped(_ name: String) throws(KokoroError) -> (values: Data, scale: [Float]) {
        guard let place = rules.arrays[name], place.dtype == "int8" else { throw .badFile("text", reason: "no matrix \(name)") }
        return (data[place.offset..<place.offset + place.count], try floats("\(name).scale"))
    }

    /// An array of float32.
    func floats(_ name: String) throws(KokoroError) -> [Float] {
        guard let place = rules.arrays[name], place.dtype == "float32" else { throw .badFile("text", reason: "no array \(name)") }
        return (0..<place.count).map { Float(bitPattern: UInt32(data.uint32(place.offset + 4 * $0))) }
    }

    /// The row of a rising table of uint32 that holds a key.
    func row(of key: Int, in name: String) -> Int? {
        guard let place = rules.arrays[name] else { return nil }
        var low = 0, high = place.count
        while low < high {
            let middle = (low + high) / 2, found = data.uint32(place.offset + 4 * middle)
            if found == key { return middle }
            if found < key { low = middle + 1 } else { high = middle }
        }
        return nil
    }

    /// How many values a row has.
    func columns(_ name: String) -> Int { rules.arrays[name]?.shape.last ?? 0 }

    /// A row of a table of int8.
    func bytes(_ name: String, row: Int) -> [Int8] {
        guard let place = rules.arrays[name], let columns = place.shape.last else { return [] }
        return data.dropFirst(place.offset + row * columns).prefix(columns).map { Int8(bitPattern: $0) }
    }
}

extension Data {
    /// Four bytes as a number, little-endian; 0 where the data is cut off.
    func uint32(_ place: Int) -> Int {
        guard place + 4 <= count else { return 0 }
        return withUnsafeBytes { Int(UInt32(littleEndian: $0.loadUnaligned(fromByteOffset: place, as: UInt32.self))) }
    }
}

/// Values [rows, columns].
struct Matrix: Sendable {
    let rows: Int, columns: Int
    var values: [Float]
}

/// The rules of a dialect.
struct TextRules: Decodable, Sendable {
    struct Place: Decodable, Sendable {
        let dtype: String, shape: [Int], offset: Int
        var count: Int { shape.reduce(1, *) }
    }
    struct Network: Decodable, Sendable {
        struct Confidence: Decodable, Sendable { let slope: Double, shift: Double }
        let heads: Int, blocks: Int, answers: [Int], sounds: [String], vowels: [String]
        let confidence: Confidence
    }
    struct Tagger: Decodable, Sendable { let scale: Double }
    let format: Int, dialect: String, arrays: [String: Place], network: Network, tagger: Tagger
}
