/// Step 10: F0 and noise to the excitation, in Double throughout, because F0's running sum loses the phase in Float.
package struct HarmonicSource: Equatable, Sendable {
    private static let voicedSine = 0.1, voicedNoise = 0.003
    /// The voice's ten weights, from the vocoder's manifest: one for each harmonic, and a bias.
    package let weights: [Double], bias: Double

    /// Weights are of float32, as the network was trained with.
    package init(weights: [Double], bias: Double) throws(KokoroError) {
        guard weights.count == Contract.harmonics else {
            throw .wrongSize("source.weights", found: weights.count, wanted: Contract.harmonics)
        }
        self.weights = weights.map { Double(Float($0)) }
        self.bias = bias
        try (self.weights + [bias]).map { Float($0) }.requireFinite("source")
    }

    /// Step `excitation`: `f0Hz` [2F] and `noise` [600F, 9] to [600F].
    package func excitation(f0Hz: [Float], noise: [Float]) throws(KokoroError) -> [Double] {
        let samples = f0Hz.count * Contract.samplesPerPitch
        guard noise.count == samples * Contract.harmonics else {
            throw .wrongSize("noise", found: noise.count, wanted: samples * Contract.harmonics)
        }
        let turns = PhaseLine(f0Hz: f0Hz)
        var found = [Double](repeating: 0, count: samples)
        for sample in 0..<samples {
            let voiced = f0Hz[sample / Contract.samplesPerPitch] > Contract.unvoicedUpToHz
            let level = voiced ? Self.voicedNoise : Self.voicedSine / 3
            let phase = voiced ? 2 * Double.pi * turns.cycles(at: sample) : 0
            var merged = bias
            for harmonic in 0..<Contract.harmonics {
                let wave = voiced ? Self.voicedSine * sine(phase * Double(harmonic + 1)) : 0
                merged += weights[harmonic] * (wave + level * Double(noise[Contract.harmonics * sample + harmonic]))
            }
            found[sample] = hyperbolicTangent(merged)
        }
        return found
    }
}

/// Cycles of the fundamental since the beginning: summed at 80 Hz, drawn out linearly between the middles of the steps. No modulo anywhere.
struct PhaseLine {
    private let summed: [Double]

    init(f0Hz: [Float]) {
        var sum = 0.0
        summed = f0Hz.map {
            sum += Double($0) * (Double(Contract.samplesPerPitch) / Double(Contract.sampleRateHz))
            return sum
        }
    }

    /// At sample 0 to 300 times the number of F0 values.
    func cycles(at sample: Int) -> Double {
        let last = summed.count - 1, step = Double(Contract.samplesPerPitch)
        let place = min(max((Double(sample) + 0.5) / step - 0.5, 0), Double(last))
        let low = Int(place), share = place - Double(low)
        return (1 - share) * summed[low] + share * summed[min(low + 1, last)]
    }
}
