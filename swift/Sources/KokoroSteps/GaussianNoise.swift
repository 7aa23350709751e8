/// Step 9: all the randomness there is. Any good generator would do; this one gives PyTorch's numbers of the same seed, to 149 dB.
package struct GaussianNoise: Sendable {
    private static let block = 16, half = 8
    private var bits: MersenneTwister

    /// The low 32 bits of the seed count.
    package init(seed: Int) { bits = MersenneTwister(seed: UInt32(truncatingIfNeeded: seed)) }

    /// [600F, 9], standard normal.
    package static func forFrames(_ frames: Int, seed: Int) -> [Float] {
        var noise = GaussianNoise(seed: seed)
        return noise.draw(frames * Contract.frameSamples * Contract.harmonics)
    }

    /// Blocks of 16 by Box-Muller: eight radii, then eight angles. A rest is drawn, left unused, and ends in a block drawn anew.
    mutating func draw(_ count: Int) -> [Float] {
        let block = Self.block, whole = count - count % block
        var values = [Float](repeating: 0, count: count)
        for start in stride(from: 0, to: whole, by: block) { fill(&values, at: start) }
        guard whole < count, count >= block else { return values }
        for _ in whole..<count { _ = bits.next() }
        fill(&values, at: count - block)
        return values
    }

    private mutating func fill(_ values: inout [Float], at start: Int) {
        for place in start..<start + Self.block { values[place] = Float(bits.next() & 0xFF_FFFF) * 0x1p-24 }
        for place in start..<start + Self.half {
            let radius = (-2 * logarithm(1 - values[place])).squareRoot()
            let angle = Float(2 * Double.pi) * values[place + Self.half]
            values[place] = radius * cosine(angle)
            values[place + Self.half] = radius * sine(angle)
        }
    }
}

/// MT19937 of Matsumoto and Nishimura, seeded by one number.
struct MersenneTwister: Sendable {
    private static let size = 624, shift = 397
    private var state: [UInt32]
    private var place: Int

    init(seed: UInt32) {
        state = [seed]
        state.reserveCapacity(Self.size)
        for number in 1..<Self.size {
            let last = state[number - 1]
            state.append(1_812_433_253 &* (last ^ (last >> 30)) &+ UInt32(number))
        }
        place = Self.size
    }

    mutating func next() -> UInt32 {
        if place == Self.size { renew() }
        var value = state[place]
        place += 1
        value ^= value >> 11
        value ^= (value << 7) & 0x9D2C_5680
        value ^= (value << 15) & 0xEFC6_0000
        return value ^ (value >> 18)
    }

    private mutating func renew() {
        for number in 0..<Self.size {
            let joined = (state[number] & 0x8000_0000) | (state[(number + 1) % Self.size] & 0x7FFF_FFFF)
            let odd: UInt32 = joined & 1 == 0 ? 0 : 0x9908_B0DF
            state[number] = state[(number + Self.shift) % Self.size] ^ (joined >> 1) ^ odd
        }
        place = 0
    }
}
