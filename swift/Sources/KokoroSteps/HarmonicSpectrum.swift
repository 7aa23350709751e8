/// Step 11: the excitation's spectrum, 20 points every 5 samples.
package struct HarmonicSpectrum: Sendable {
    /// The periodic Hann window [20] as upstream's float32 has it. The formula gives other last places, and in column 0, whose frame is
    /// symmetric, these decide between +pi and -pi.
    package static let window: [Float] = [
        0.0, 0.02447173, 0.0954915, 0.20610738, 0.34549153, 0.5, 0.65450853, 0.7938926, 0.9045085, 0.9755283,
        1.0, 0.97552824, 0.9045085, 0.7938925, 0.65450853, 0.5, 0.34549144, 0.20610726, 0.09549138, 0.02447173,
    ]
    private static let middle = Contract.fourierPoints / 2
    private let cosines: [Double], sines: [Double]  // [11, 11]: a frame is folded at its middle
    private let taper = HarmonicSpectrum.window.map(Double.init)

    package init() {
        let points = Contract.fourierPoints, width = Self.middle + 1
        let angles = (0..<Contract.bins * width).map { place in
            2 * Double.pi * Double(place / width * (place % width) % points) / Double(points)
        }
        cosines = angles.map { cosine($0) }
        sines = angles.map { sine($0) }
    }

    /// Step `spectrum`: `excitation` [600F] to [22, 120F + 1]: eleven magnitudes, eleven phases in radians.
    package func columns(of excitation: [Double]) throws(KokoroError) -> [Float] {
        let edged = try reflected(excitation), columns = excitation.count / Contract.hopSamples + 1
        var found = [Float](repeating: 0, count: 2 * Contract.bins * columns)
        var even = [Double](repeating: 0, count: Self.middle + 1), odd = even
        for column in 0..<columns {
            fold(edged, from: column * Contract.hopSamples, even: &even, odd: &odd)
            for bin in 0..<Contract.bins {
                let (real, imaginary) = transformed(bin, even: even, odd: odd)
                found[bin * columns + column] = Float((real * real + imaginary * imaginary).squareRoot())
                found[(Contract.bins + bin) * columns + column] = Float(angle(imaginary, real))
            }
        }
        return found
    }

    /// Ten samples mirrored at both ends, the edge samples not repeated.
    private func reflected(_ excitation: [Double]) throws(KokoroError) -> [Double] {
        let count = excitation.count, edge = Self.middle
        guard count > edge else { throw .wrongSize("excitation", found: count, wanted: Contract.frameSamples) }
        return excitation[1...edge].reversed() + excitation + excitation[(count - 1 - edge)..<(count - 1)].reversed()
    }

    /// Sums and differences of the windowed samples that stand symmetrically in the frame.
    private func fold(_ samples: [Double], from start: Int, even: inout [Double], odd: inout [Double]) {
        let points = Contract.fourierPoints, middle = Self.middle
        even[0] = samples[start] * taper[0]
        even[middle] = samples[start + middle] * taper[middle]
        for place in 1..<middle {
            let left = samples[start + place] * taper[place], right = samples[start + points - place] * taper[points - place]
            even[place] = left + right
            odd[place] = left - right
        }
    }

    /// One bin of the transform. Bins 0 and 10 are real: their imaginary part is +0, so that the phase is 0 or +pi and never -pi.
    private func transformed(_ bin: Int, even: [Double], odd: [Double]) -> (real: Double, imaginary: Double) {
        let width = Self.middle + 1, row = bin * width
        var real = 0.0, imaginary = 0.0
        for place in 0..<width { real += even[place] * cosines[row + place] }
        guard bin > 0, bin < Contract.bins - 1 else { return (real, 0) }
        for place in 1..<width - 1 { imaginary -= odd[place] * sines[row + place] }
        return (real, imaginary)
    }
}
