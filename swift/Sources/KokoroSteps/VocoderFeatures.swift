/// Step 12: what the vocoder reads, in its one flexible input.
package struct VocoderFeatures: Sendable {
    /// `asr` [1, C, F], `f0Hz` and `energy` [2F], `spectrum` [22, 120F + 1].
    package let asr: Tensor, f0Hz: [Float], energy: [Float], spectrum: [Float]

    /// Throws `wrongSize` where they are not of one length, `notFinite` for NaN: the vocoder would give silence.
    package init(asr: Tensor, f0Hz: [Float], energy: [Float], spectrum: [Float]) throws(KokoroError) {
        let frames = asr.columns, rows = 2 * Contract.bins
        for (name, found, wanted) in [
            ("f0_hz", f0Hz.count, Contract.prosodyPerFrame * frames), ("energy", energy.count, Contract.prosodyPerFrame * frames),
            ("spectrum", spectrum.count, rows * (Contract.columnsPerFrame * frames + 1)),
        ] where found != wanted { throw .wrongSize(name, found: found, wanted: wanted) }
        for (name, values) in [("asr", asr.values), ("f0_hz", f0Hz), ("energy", energy), ("spectrum", spectrum)] {
            try values.requireFinite(name)
        }
        (self.asr, self.f0Hz, self.energy, self.spectrum) = (asr, f0Hz, energy, spectrum)
    }

    /// 120F + 1.
    var spectrumColumns: Int { Contract.columnsPerFrame * asr.columns + 1 }

    /// Step `pack`: [1, C + 5 + 2640, 1, B + 1], each row padded with zeros to a multiple of B + 1 values. `phases`: 6 for the
    /// streaming layout, where each six columns of the spectrum stand as six rows of 20 (B + 1).
    package func packed(bucket: Int, phases: Int = 1) throws(KokoroError) -> Tensor {
        let frames = asr.columns, pair = Contract.prosodyPerFrame
        guard frames <= bucket else { throw .utteranceTooLong(frames, most: bucket, unit: "frames") }
        return try KokoroSteps.packed([
            PackedPart(asr.values, row: frames, rate: 1), PackedPart(f0Hz, row: f0Hz.count, rate: pair), PackedPart(energy, row: energy.count, rate: pair),
            PackedPart([Float](repeating: 1, count: frames), row: frames, rate: 1),
            PackedPart(spectrum, row: spectrumColumns, rate: Contract.columnsPerFrame, phases: phases),
        ], bucket: bucket)
    }
}

/// Rows of so many values, of which `count` from `from` on are packed, `rate` of them a frame.
struct PackedPart {
    let values: [Float], row: Int, from: Int, count: Int, rate: Int, phases: Int

    init(_ values: [Float], row: Int, from: Int = 0, count: Int? = nil, rate: Int, phases: Int = 1) {
        (self.values, self.row, self.from, self.count, self.rate, self.phases) = (values, row, from, count ?? row, rate, phases)
    }
}

/// [1, rows, 1, B + 1].
func packed(_ parts: [PackedPart], bucket: Int) throws(KokoroError) -> Tensor {
    let width = bucket + 1, rows = parts.reduce(0) { $0 + $1.values.count / $1.row * $1.rate }
    var flat = [Float](repeating: 0, count: rows * width), place = 0
    for part in parts {
        for row in 0..<part.values.count / part.row {
            for column in 0..<part.count {
                let at = column % part.phases * part.rate / part.phases * width + column / part.phases
                flat[place + at] = part.values[row * part.row + part.from + column]
            }
            place += part.rate * width
        }
    }
    return try Tensor("features", shape: [1, rows, 1, width], values: flat)
}
