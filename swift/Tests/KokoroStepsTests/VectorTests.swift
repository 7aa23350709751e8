import Foundation
import KokoroSteps
import KokoroVectors
import Testing

/// Every step of docs/synthesis.md on its stored inputs, against its stored outputs.
@Suite struct VectorTests {
    /// Steps that a package computes; the tests of Kokoro replay them through a backend.
    static let ofPackages: Set<String> = ["duration", "prosody", "vocoder"]

    @Test func everyStepComesAsNearAsTheIndexAsks() throws {
        let (index, folder) = try BundleUnderTest.vectors()
        #expect(index.utterances.count >= 2 && index.steps.count == 15)
        for utterance in index.utterances {
            let stored = StoredUtterance(utterance, in: folder)
            for step in index.steps where !Self.ofPackages.contains(step.name) {
                let found = try Replay(stored: stored, index: index).step(step.name)
                #expect(Set(found.keys) == Set(step.writes.keys), "\(step.name)")
                for (name, nearness) in step.writes {
                    try compare(name, found[name], with: stored(name), nearness, told: "\(utterance.id) \(step.name) \(name)")
                }
            }
        }
    }

    private func compare(_ name: String, _ found: Computed?, with stored: NumpyFile, _ nearness: Nearness, told: String) throws {
        let got = try #require(found)
        #expect(got.shape == stored.shape, "\(told)")
        let views = name == "spectrum" ? (comparable(spectrum: stored.values), comparable(spectrum: got.values)) : (stored.values, got.values)
        let reached = snrDB(views.0, views.1)
        print("   \(told): \(reached) dB, at least \(nearness.leastDB)")
        #expect(reached >= nearness.leastDB, "\(told)")
    }
}

/// What a port computed: its shape, and its values as the index stores them.
struct Computed {
    let shape: [Int], values: [Double]
}

/// One step of one utterance, its inputs as they are stored.
struct Replay {
    let stored: StoredUtterance, index: VectorIndex

    func step(_ name: String) throws -> [String: Computed] {
        switch name {
        case "ids", "pad", "style": try tokens(name)
        case "round", "align", "asr", "frames": try alignment(name)
        case "noise", "excitation", "spectrum": try source(name)
        default: try ends(name)
        }
    }

    private func bucket(_ count: Int, _ name: String) throws -> Int { try Buckets(index.buckets[name] ?? []).smallest(holding: count, unit: name) }
    private func reals(_ values: [Float], _ shape: [Int]) -> Computed { Computed(shape: shape, values: values.map(Double.init)) }
    private func reals(_ tensor: Tensor) -> Computed { reals(tensor.values, tensor.shape) }
    private func whole(_ values: [some BinaryInteger], _ shape: [Int]) -> Computed { Computed(shape: shape, values: values.map { Double($0) }) }

    private func tokens(_ name: String) throws -> [String: Computed] {
        let phonemes = try stored("phonemes").integers.compactMap { Unicode.Scalar(UInt32($0)) }
        if name == "ids" {
            let ids = try BundleUnderTest.vocabulary().ids(phonemes)
            return ["ids": whole(ids, [ids.count])]
        }
        if name == "pad" {
            let ids = try stored("ids").integers.map(Int32.init), padded = paddedTokens(ids, to: try bucket(ids.count, "tokens"))
            return ["input_ids": whole(padded, [1, padded.count])]
        }
        let table = try NumpyFile(stored.folder.appendingPathComponent("voice.npy")).floats
        let row = try VoiceStyle.rowIndex(phonemes: phonemes.count), style = try VoiceStyle(row: Array(table[row * 256..<(row + 1) * 256]))
        return ["style_decoder": reals(style.decoder, [1, 128]), "style_prosody": reals(style.prosody, [1, 128])]
    }

    private func alignment(_ name: String) throws -> [String: Computed] {
        if name == "round" {
            let limits = try #require(BundleUnderTest.manifest().encoder.first).alignment
            let raw = try stored("raw"), given = DurationLimits(tokenFrames: limits.tokenFrames, totalFrames: limits.totalFrames)
            return ["durations": whole(try given.wholeFrames(raw.floats), raw.shape)]
        }
        let frames = FrameAlignment(durations: try stored("durations").integers)
        if name == "align" { return ["token_of_frame": whole(frames.tokenOfFrame, [frames.frames])] }
        if name == "asr" { return ["asr": reals(try frames.asr(text: stored("text").tensor("text")))] }
        return ["frames": reals(try frames.frames(hidden: stored("hidden").tensor("hidden"), bucket: bucket(frames.frames, "frames")))]
    }

    private func source(_ name: String) throws -> [String: Computed] {
        if name == "noise" {
            let frames = try stored("f0_hz").shape[1] / Contract.prosodyPerFrame, seed = try #require(stored("seed").integers.first)
            return ["noise": reals(GaussianNoise.forFrames(frames, seed: seed), [1, 600 * frames, 9])]
        }
        if name == "excitation" {
            let recorded = try BundleUnderTest.manifest().vocoder.source, made = try HarmonicSource(weights: recorded.weights, bias: recorded.bias)
            let found = try made.excitation(f0Hz: stored("f0_hz").floats, noise: stored("noise").floats)
            return ["excitation": Computed(shape: [1, found.count], values: found)]
        }
        let excitation = try stored("excitation").values, found = try HarmonicSpectrum().columns(of: excitation)
        return ["spectrum": reals(found, [1, 22, excitation.count / 5 + 1])]
    }

    private func ends(_ name: String) throws -> [String: Computed] {
        if name == "pack" {
            let asr = try stored("asr").tensor("asr"), width = try bucket(asr.columns, "vocoder_frames")
            let features = try VocoderFeatures(
                asr: asr, f0Hz: stored("f0_hz").floats, energy: stored("energy").floats, spectrum: stored("spectrum").floats)
            let style = try stored("style_decoder").floats
            // of the padded layout, which measures its statistics
            let added = try NumpyFile(stored.folder.appendingPathComponent("statistics.npy")).floats
            #expect(added.isEmpty)
            return [
                "features": reals(try features.packed(bucket: width)), "style": reals(style, [1, style.count, 1, 1]),
                "statistics": reals([], [1, 0, 1, 1]),
            ]
        }
        try #require(name == "finish", "a step that this test does not know: \(name)")
        let finished = FinishedChunk(waveform: try stored("waveform").floats)
        return ["samples": reals(finished.samples, [finished.samples.count]), "gain": reals([finished.gain], [1])]
    }
}
