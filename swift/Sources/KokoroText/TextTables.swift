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
        guard rules.format == 3 else { throw .badFile(file.lastPathComponent, reason: "format \(rules.format), not 3: bundle again") }
        let tables = folder.appendingPathComponent("\(dialect).bin")
        do { data = try Data(contentsOf: tables, options: .alwaysMapped) } catch { throw .badFile(tables.lastPathComponent, reason: "missing") }
        for (name, place) in rules.arrays {
            guard let width = Self.widths[place.dtype], place.offset >= 0, place.offset + width * place.count <= data.count else {
                throw .badFile(tables.lastPathComponent, reason: "no room for \(name)")
            }
        }
    }

    private static let widths = ["int8": 1, "float32": 4, "uint32": 4]

    /// An array as float32; a matrix of int8 [out, in] times its scales [out, 1].
    func floats(_ name: String) throws(KokoroError) -> Matrix {
        guard let place = rules.arrays[name] else { throw .badFile("text", reason: "no array \(name)") }
        let columns = place.shape.last ?? 1
        var values = place.dtype == "int8" ? bytes(name).map { Float($0) } : float32(place)
        if place.dtype == "int8" {
            guard let scale = rules.arrays["\(name).scale"] else { throw .badFile("text", reason: "no scales of \(name)") }
            for (row, step) in float32(scale).enumerated() where (row + 1) * columns <= values.count {
                for column in 0..<columns { values[row * columns + column] *= step }
            }
        }
        return Matrix(rows: place.count / max(columns, 1), columns: columns, values: values)
    }

    /// A matrix of int8 as it lies in the file, and its scales.
    func mapped(_ name: String) throws(KokoroError) -> (values: Data, scale: [Float]) {
        guard let place = rules.arrays[name], place.dtype == "int8", let scale = rules.arrays["\(name).scale"] else { throw .badFile("text", reason: "no scales of \(name)") }
        return (data[place.offset..<place.offset + place.count], float32(scale))
    }

    private func float32(_ place: TextRules.Place) -> [Float] {
        (0..<place.count).map { Float(bitPattern: UInt32(data.uint32(place.offset + 4 * $0))) }
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

    /// A table of int8, or one row of it.
    func bytes(_ name: String, row: Int? = nil) -> [Int8] {
        guard let place = rules.arrays[name], let columns = place.shape.last else { return [] }
        return data.dropFirst(place.offset + (row ?? 0) * columns).prefix(row == nil ? place.count : columns).map { Int8(bitPattern: $0) }
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
