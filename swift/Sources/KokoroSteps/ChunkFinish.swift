#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// Step 14: a waveform ready to be joined with its neighbours.
public struct FinishedChunk: Equatable, Sendable {
    /// [600F], within -1 to 1.
    public let samples: [Float]
    /// What it was multiplied by: 1, or less where it was louder than full scale.
    public let gain: Float

    /// `waveform` [600F]. Both ends are faded over 120 samples, or half the length where there are under 240.
    public init(waveform: [Float]) {
        var faded = waveform
        let length = min(Contract.fadeSamples, faded.count / 2)
        for place in 0..<length {
            let root = sin(Double.pi * Double(2 * place + 1) / Double(4 * length)), slope = Float(root * root)
            faded[place] *= slope
            faded[faded.count - 1 - place] *= slope
        }
        let peak = faded.reduce(0) { max($0, abs($1)) }
        let turned = peak > 1 ? Float(1 / Double(peak)) : 1
        samples = turned < 1 ? faded.map { min(max($0 * turned, -1), 1) } : faded
        gain = turned
    }
}

/// Samples in -1 to 1 as 16-bit integers, rounded half to even; 1 becomes 32767.
public func pcm16(_ samples: [Float]) -> [Int16] {
    samples.map { Int16(min(max((Double($0) * 32767).rounded(.toNearestOrEven), -32767), 32767)) }
}
