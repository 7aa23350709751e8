import Foundation
import KokoroSteps

/// A 16-bit mono wav that is written piece by piece, and appears under its name when it is complete.
struct WaveFile {
    private let file: URL, aside: URL, handle: FileHandle
    private(set) var samples = 0

    init(_ file: URL) throws {
        self.file = file
        aside = file.deletingLastPathComponent().appendingPathComponent(".\(file.lastPathComponent).partial")
        try Self.header(samples: 0).write(to: aside)
        handle = try FileHandle(forWritingTo: aside)
        try handle.seekToEnd()
    }

    mutating func append(_ values: [Float]) throws {
        var bytes = Data(capacity: 2 * values.count)
        for value in pcm16(values) { withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) } }
        try handle.write(contentsOf: bytes)
        samples += values.count
    }

    func close() throws {
        try handle.seek(toOffset: 0)
        try handle.write(contentsOf: Self.header(samples: samples))
        try handle.close()
        _ = try? FileManager.default.removeItem(at: file)
        try FileManager.default.moveItem(at: aside, to: file)
    }

    /// Nothing is left of it.
    func discard() { _ = try? FileManager.default.removeItem(at: aside) }

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
