/// Step 12: what the vocoder reads, in its one flexible input.
public struct VocoderFeatures: Sendable {
    /// `asr` [1, C, F], `f0Hz` and `energy` [2F], `spectrum` [22, 120F + 1].
    public let asr: Tensor, f0Hz: [Float], energy: [Float], spectrum: [Float]

    /// Throws `wrongSize` where they are not of one length, `notFinite` for NaN: the vocoder would give silence.
    public init(asr: Tensor, f0Hz: [Float], energy: [Float], spectrum: [Float]) throws(KokoroError) {
        let frames = asr.columns, rows = 2 * Contract.bins
        for (name, found, wanted) in [
            ("f0_hz", f0Hz.count, Contract.prosodyPerFrame * frames), ("energy", energy.count, Contract.prosodyPerFrame * frames),
            ("spectrum", spectrum.count, rows * (Contract.columnsPerFrame * frames + 1)),
        ] where found != wanted { throw .wrongSize(name, found: found, wanted: wanted) }
        for (name, values) in [("asr", asr.values), ("f0_hz", f0Hz), ("energy", energy), ("spectrum", spectrum)] {
            try values.requireFinite(name)
        }
        self.asr = asr
        self.f0Hz = f0Hz
        self.energy = energy
        self.spectrum = spectrum
    }

    /// Step `pack` of the padded layout: [1, C + 5 + 2640, 1, B + 1], each row padded with zeros to a multiple of B + 1 values.
    public func packed(bucket: Int) throws(KokoroError) -> Tensor {
        let frames = asr.columns, width = bucket + 1
        guard frames <= bucket else { throw .utteranceTooLong(frames, most: bucket, unit: "frames") }
        let mask = [Float](repeating: 1, count: frames)
        let parts: [(values: [Float], length: Int, rate: Int)] = [
            (asr.values, frames, 1), (f0Hz, f0Hz.count, Contract.prosodyPerFrame), (energy, energy.count, Contract.prosodyPerFrame),
            (mask, frames, 1), (spectrum, Contract.columnsPerFrame * frames + 1, Contract.columnsPerFrame),
        ]
        let rows = parts.reduce(0) { $0 + $1.values.count / $1.length * $1.rate }
        var flat = [Float](repeating: 0, count: rows * width), place = 0
        for part in parts {
            for row in 0..<part.values.count / part.length {
                for column in 0..<part.length { flat[place + column] = part.values[row * part.length + column] }
                place += part.rate * width
            }
        }
        return try Tensor("features", shape: [1, rows, 1, width], values: flat)
    }
}
