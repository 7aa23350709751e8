/// Step 14: a waveform ready to be joined with its neighbours.
package struct FinishedChunk: Equatable, Sendable {
    /// [600F], within -1 to 1.
    package let samples: [Float]
    /// What it was multiplied by: 1, or less where it was louder than full scale.
    package let gain: Float

    /// `waveform` [600F]. Both ends are faded over 120 samples, or half the length where there are under 240.
    package init(waveform: [Float]) {
        var faded = waveform
        let length = min(Contract.fadeSamples, faded.count / 2)
        for place in 0..<length {
            let slope = fade(place, of: length)
            faded[place] *= slope
            faded[faded.count - 1 - place] *= slope
        }
        let peak = faded.reduce(0) { max($0, abs($1)) }
        let turned = peak > 1 ? Float(1 / Double(peak)) : 1
        samples = turned < 1 ? faded.map { min(max($0 * turned, -1), 1) } : faded
        gain = turned
    }

    init(samples: [Float], gain: Float) { (self.samples, self.gain) = (samples, gain) }
}

/// From near 0 to near 1.
func fade(_ place: Int, of length: Int) -> Float {
    let root = sine(Double.pi * Double(2 * place + 1) / Double(4 * length))
    return Float(root * root)
}

/// Step 14 of a chunk that comes in pieces, [600F] together: the same fades; what is too loud is turned down from there on, over one fade.
package struct StreamFinish: Sendable {
    private let length: Int
    private var at = 0, turned = 1.0
    package var gain: Float { Float(turned) }
    package init(length: Int) { self.length = length }

    package mutating func callAsFunction(_ piece: [Float]) -> [Float] {
        var samples = piece
        let fading = min(Contract.fadeSamples, length / 2), ramp = min(Contract.fadeSamples, piece.count), before = turned
        for place in piece.indices {
            let edge = min(at + place, length - 1 - at - place)
            if edge < fading { samples[place] *= fade(edge, of: fading) }
        }
        at += piece.count
        let peak = Double(samples.reduce(0) { max($0, abs($1)) })
        turned = min(before, peak > 0 ? 1 / peak : 1)
        guard turned < 1 else { return samples }
        for place in samples.indices {
            let gain = place < ramp ? before + (turned - before) * Double(place) / Double(max(ramp - 1, 1)) : turned
            samples[place] = min(max(samples[place] * Float(gain), -1), 1)
        }
        return samples
    }
}

extension Unicode.Scalar {
    /// As Python's `isalpha`.
    package var isLetter: Bool {
        if value < 128 { return (65...90).contains(value) || (97...122).contains(value) }
        return switch properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter: true
        default: false
        }
    }
}

/// Samples in -1 to 1 as 16-bit integers, rounded half to even; 1 becomes 32767.
package func pcm16(_ samples: [Float]) -> [Int16] {
    samples.map { Int16(min(max((Double($0) * 32767).rounded(.toNearestOrEven), -32767), 32767)) }
}
