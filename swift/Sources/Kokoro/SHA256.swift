import Foundation
import KokoroSteps

#if canImport(CryptoKit)
import CryptoKit
#endif

/// SHA-256 of files, by CryptoKit where there is one.
struct SHA256 {
    /// In hexadecimal digits, a megabyte at a time. Throws `badFile`.
    static func hash(of file: URL) throws(KokoroError) -> String {
        do {
            let handle = try FileHandle(forReadingFrom: file)
            defer { try? handle.close() }
            var sum = SHA256()
            while let block = try handle.read(upToCount: 1 << 20), !block.isEmpty { sum.update(block) }
            return sum.finish()
        } catch { throw .badFile(file.lastPathComponent, reason: "missing or unreadable") }
    }

    static func hash(_ data: Data) -> String {
        var sum = SHA256()
        sum.update(data)
        return sum.finish()
    }

    private static func digits(_ bytes: some Sequence<UInt8>) -> String {
        bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    #if canImport(CryptoKit)
    private var sum = CryptoKit.SHA256()
    mutating func update(_ data: Data) { sum.update(data: data) }
    func finish() -> String { Self.digits(sum.finalize()) }
    #else
    private var state: [UInt32] = [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19]
    private var rest: [UInt8] = [], count: UInt64 = 0

    mutating func update(_ data: Data) {
        count += UInt64(data.count)
        rest += data
        let whole = rest.count / 64
        rest.withUnsafeBufferPointer { bytes in for block in 0..<whole { Self.mix(&state, bytes, 64 * block) } }
        rest.removeFirst(64 * whole)
    }

    mutating func finish() -> String {
        let length = count * 8
        update(Data([0x80] + [UInt8](repeating: 0, count: (119 - rest.count) % 64) + (0..<8).map { UInt8(truncatingIfNeeded: length >> (56 - 8 * UInt64($0))) }))
        return Self.digits(state.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * UInt32($0))) } })
    }

    /// The first 32 bits of what stands behind the point in the cube roots of the first 64 primes.
    private static let constants: [UInt32] = {
        let primes = (2...311).filter { number in !(2..<number).contains { number % $0 == 0 } }
        return primes.map { prime in
            let root = Foundation.cbrt(Double(prime))
            return UInt32((root - root.rounded(.down)) * 0x1p32)
        }
    }()

    private static func mix(_ state: inout [UInt32], _ bytes: UnsafeBufferPointer<UInt8>, _ start: Int) {
        func turned(_ word: UInt32, _ by: UInt32) -> UInt32 { word >> by | word << (32 - by) }
        withUnsafeTemporaryAllocation(of: UInt32.self, capacity: 64) { words in
            for place in 0..<16 { words[place] = (0..<4).reduce(0) { $0 << 8 | UInt32(bytes[start + 4 * place + $1]) } }
            for place in 16..<64 {
                let early = words[place - 15], late = words[place - 2]
                words[place] = words[place - 16] &+ (turned(early, 7) ^ turned(early, 18) ^ early >> 3) &+ words[place - 7]
                    &+ (turned(late, 17) ^ turned(late, 19) ^ late >> 10)
            }
            var (a, b, c, d) = (state[0], state[1], state[2], state[3]), (e, f, g, h) = (state[4], state[5], state[6], state[7])
            for place in 0..<64 {
                let one = h &+ (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) &+ (e & f ^ ~e & g) &+ constants[place] &+ words[place]
                let two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) &+ (a & b ^ a & c ^ b & c)
                (h, g, f, e, d, c, b, a) = (g, f, e, d &+ one, c, b, a, one &+ two)
            }
            for (place, value) in [a, b, c, d, e, f, g, h].enumerated() { state[place] &+= value }
        }
    }
    #endif
}
