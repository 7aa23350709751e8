import Foundation
import KokoroSteps

/// An array of a .npy file in row-major order, its values as Double, which holds every number of the test vectors exactly.
package struct NumpyFile: Sendable {
    /// Length of each axis, and all values.
    package let shape: [Int], values: [Double]

    /// Throws `badFile` for anything but version 1 of float64, float32, int32 or int64, little-endian and in C order.
    package init(_ file: URL) throws {
        let data = try Data(contentsOf: file)
        guard data.count > 10, data.prefix(7) == Data([0x93] + Array("NUMPY".utf8) + [1]) else { throw Self.bad(file, "no .npy of version 1") }
        let start = 10 + Int(data[8]) + Int(data[9]) << 8
        guard start <= data.count else { throw Self.bad(file, "cut off in its header") }
        let header = String(decoding: data[10..<start], as: UTF8.self)
        guard header.contains("'fortran_order': False"), let open = header.firstIndex(of: "("), let close = header.firstIndex(of: ")") else {
            throw Self.bad(file, "not in C order")
        }
        shape = header[open..<close].split(whereSeparator: { !$0.isNumber }).compactMap { Int($0) }
        values = try Self.decoded(data[start...], header: header, file: file)
        guard values.count == shape.reduce(1, *) else { throw Self.bad(file, "\(values.count) values for \(shape)") }
    }

    /// As Float: exact where the file is float32.
    package var floats: [Float] { values.map { Float($0) } }
    /// As integers: exact where the file holds integers.
    package var integers: [Int] { values.map { Int($0) } }
    /// With its shape.
    package func tensor(_ name: String) throws(KokoroError) -> Tensor { try Tensor(name, shape: shape, values: floats) }

    private static func decoded(_ data: Data, header: String, file: URL) throws -> [Double] {
        func all<Bits: FixedWidthInteger>(_: Bits.Type, _ value: (Bits) -> Double) -> [Double] {
            let width = MemoryLayout<Bits>.size
            return data.withUnsafeBytes { bytes in
                (0..<bytes.count / width).map { value(Bits(littleEndian: bytes.loadUnaligned(fromByteOffset: $0 * width, as: Bits.self))) }
            }
        }
        if header.contains("'<f8'") { return all(UInt64.self) { Double(bitPattern: $0) } }
        if header.contains("'<f4'") { return all(UInt32.self) { Double(Float(bitPattern: $0)) } }
        if header.contains("'<i4'") { return all(Int32.self) { Double($0) } }
        if header.contains("'<i8'") { return all(Int64.self) { Double($0) } }
        throw bad(file, "of another kind than float64, float32, int32 and int64")
    }

    private static func bad(_ file: URL, _ reason: String) -> KokoroError { .badFile(file.lastPathComponent, reason: reason) }
}
