import Foundation
import KokoroSteps

/// A 16-bit mono wav that is written piece by piece, and appears under its name when it is complete. What the disk refuses is a `disk` error.
public struct WaveFile {
    private let file: URL, aside: URL, handle: FileHandle
    /// How many are written.
    public private(set) var samples = 0

    public init(_ file: URL) throws(KokoroError) {
        let aside = file.deletingLastPathComponent().appendingPathComponent(".\(file.lastPathComponent).partial")
        (self.file, self.aside) = (file, aside)
        handle = try Self.told(file) {
            try Self.header(samples: 0).write(to: aside)
            let handle = try FileHandle(forWritingTo: aside)
            try handle.seekToEnd()
            return handle
        }
    }

    public mutating func append(_ values: [Float]) throws(KokoroError) {
        var bytes = Data(capacity: 2 * values.count)
        for value in pcm16(values) { withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) } }
        try Self.told(file) { try handle.write(contentsOf: bytes) }
        samples += values.count
    }

    public func close() throws(KokoroError) {
        try Self.told(file) {
            try handle.seek(toOffset: 0)
            try handle.write(contentsOf: Self.header(samples: samples))
            try handle.close()
            _ = try? FileManager.default.removeItem(at: file)
            try FileManager.default.moveItem(at: aside, to: file)
        }
    }

    /// Nothing is left of what was not closed.
    public func discard() { _ = try? FileManager.default.removeItem(at: aside) }

    private static func told<Found>(_ file: URL, _ body: () throws -> Found) throws(KokoroError) -> Found {
        do { return try body() } catch { throw KokoroError(file, error) }
    }

    private static func header(samples: Int) -> Data {
        let rate = UInt32(Contract.sampleRateHz), bytes = UInt32(clamping: 2 * samples)
        var data = Data("RIFF".utf8)
        func add(_ value: some FixedWidthInteger) { withUnsafeBytes(of: value.littleEndian) { data.append(contentsOf: $0) } }
        add(bytes &+ 36)
        data += Data("WAVEfmt ".utf8)
        for value: UInt32 in [16, 1 << 16 | 1, rate, 2 * rate, 16 << 16 | 2] { add(value) }  // two of them are pairs of 16 bits
        data += Data("data".utf8)
        add(bytes)
        return data
    }
}
