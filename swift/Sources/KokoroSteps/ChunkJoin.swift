/// Where sound is, and what a join cuts of the model's silence, as pipeline/joins.py does it; docs/synthesis.md says it in words.
///
/// `edges` [tokens + 1]: where each token begins and the last ends, in samples; `parts`: phonemes of the chunks of one call.
package enum Joins {
    private static let quiet: Float = 0.01, faint: Float = 0.0031622776601683794, step = 60, noisySteps = 20, pauseSteps = 16, early = 2400
    private static let endedSteps = 4, tickSteps = 12, plosives = Set("ptkbdɡɾʔʧʤT".unicodeScalars), releaseFrames = 3
    private static let lastFrames = 10, markFrames = 8, spaceFrames = 6
    private static let noisy = Set("fvθðszʃʒhxçptkbdɡʧʤʦʣɾʔT".unicodeScalars)

    static func sounds(_ phonemes: [Unicode.Scalar]) -> [Int] { phonemes.indices.filter { phonemes[$0] != " " && !Marks.all.contains(phonemes[$0]) } }

    private static func bare(_ phonemes: ArraySlice<Unicode.Scalar>) -> Unicode.Scalar { phonemes.first { $0 != "ˈ" && $0 != "ˌ" } ?? " " }

    static func edges(_ durations: [Int]) -> [Int] { durations.reduce(into: [0]) { $0.append($0[$0.count - 1] + Contract.frameSamples * $1) } }

    /// Steps of 2.5 ms and how loud they are.
    private struct Loudness {
        private(set) var peaks: [Float], loud: [Int]
        init(_ samples: ArraySlice<Float>) {
            let from = samples.startIndex
            peaks = (0..<samples.count / step).map { place in samples[from + step * place..<from + step * (place + 1)].reduce(0) { max($0, abs($1)) } }
            loud = peaks.indices.filter { [peaks] in peaks[$0] > quiet }
        }

        func begin(_ at: Int, _ symbol: Unicode.Scalar) -> Int {
            let near = noisy.contains(symbol) ? (max(0, at - noisySteps)..<min(peaks.count, at + 1)).first { peaks[$0] > faint } : nil
            return step * (near ?? at)
        }
        func end(_ at: Int, _ symbol: Unicode.Scalar) -> Int {
            let near = noisy.contains(symbol) ? (max(0, at)..<min(peaks.count, at + noisySteps + 1)).last { peaks[$0] > faint } : nil
            return step * ((near ?? at) + 1)
        }

        /// Forgets the model's ticks: what is shorter than 30 ms, behind 10 ms of quiet. `end`: the first step behind the last phone, by durations.
        mutating func dropTicks(behind end: Int) {
            var over = end, begun: Int?, last = 0
            func close() { if let from = begun, last + 1 - from > tickSteps || from - over < endedSteps { over = last + 1 } }
            for at in loud where at >= end {
                if begun == nil || at - last > endedSteps { close(); begun = at }
                last = at
            }
            close()
            guard let tick = loud.first(where: { $0 >= over }) else { return }
            loud.removeAll { $0 >= over }
            peaks.removeLast(peaks.count - tick + Contract.fadeSamples / step)
        }

        /// The last step before and the first behind the longest quiet between two samples.
        func pause(_ from: Int, _ to: Int) -> (Int, Int)? {
            let first = max(0, from) / step, last = (to + step - 1) / step
            var best = (first - 1, first - 1), before = first - 1
            for at in loud.filter({ $0 >= first && $0 < last }) + [last] {
                if at - before > best.1 - best.0 { best = (before, at) }
                before = at
            }
            return best.1 - best.0 > pauseSteps ? best : nil
        }
    }

    static func firstSound(_ samples: [Float], _ edges: [Int], _ phonemes: [Unicode.Scalar]) -> Int? {
        let place = sounds(phonemes).first ?? 0, latest = edges[place + 1], loudness = Loudness(samples[...])
        if let at = loudness.loud.first, step * at <= latest { return loudness.begin(at, bare(phonemes[place...])) }
        return samples.count >= latest ? latest : nil
    }

    static func lastSound(_ samples: [Float], _ offset: Int, _ edges: [Int], _ phonemes: [Unicode.Scalar]) -> Int {
        let place = sounds(phonemes).last ?? 0, from = offset + (step - offset % step) % step, earliest = edges[place + 1]
        let late = plosives.contains(phonemes[place]) ? releaseFrames * Contract.frameSamples : 0
        var loudness = Loudness(samples.dropFirst(from - offset))
        loudness.dropTicks(behind: (edges[place + 2] + late - from) / step)
        return loudness.loud.last.map { max(earliest, from + loudness.end($0, phonemes[place])) } ?? earliest
    }

    /// The edges, moved where a silence shows when the sounds beside it end and begin: at both ends, and at marks with 40 ms of quiet.
    package static func heard(_ samples: [Float], _ edges: [Int], _ phonemes: [Unicode.Scalar]) -> [Int] {
        let sounds = sounds(phonemes), loudness = Loudness(samples[...])
        var moved = edges.map { min(max($0, 0), samples.count) }, word = (sounds.first ?? 0) + 1
        func silence(_ last: Int, _ end: Int, _ first: Int, _ begin: Int) {
            for at in moved.indices {
                moved[at] = at < last ? min(moved[at], end) : at > first ? max(moved[at], begin) : end + (begin - end) * (at - last) / max(1, first - last)
            }
        }
        silence(0, 0, word, firstSound(samples, edges, phonemes) ?? 0)
        for (before, behind) in zip(sounds, sounds.dropFirst()) where behind > before + 1 {
            if phonemes[before + 1..<behind].contains(where: Marks.all.contains), let pause = loudness.pause(edges[before + 1] - early, edges[behind + 2] - step) {
                let end = loudness.end(pause.0, phonemes[before])
                if end > moved[word] { silence(before + 2, end, behind + 1, max(end, loudness.begin(pause.1, bare(phonemes[behind...])))) }
            }
            word = behind + 1
        }
        // the last sound keeps a step of its own
        let latest = max(moved[word], moved[(sounds.last ?? 0) + 1]) + step
        silence((sounds.last ?? 0) + 2, min(samples.count, max(lastSound(samples, 0, edges, phonemes), latest)), edges.count - 1, samples.count)
        return moved
    }

    /// Frames of a call's tokens, the ends of all parts but the last drawn out to a pause.
    static func withPauses(_ durations: [Int], _ parts: [[Unicode.Scalar]]) -> [Int] {
        var drawn = durations, place = 0
        for part in parts.dropLast() {
            let last = place + (sounds(part).last ?? 0) + 1
            place += part.count + 1
            for token in last...place { drawn[token] = max(drawn[token], token == last ? lastFrames : token == place ? spaceFrames : markFrames) }
        }
        return drawn
    }

    /// What is whose in the samples of a call, cut in the middle of the pauses; nil where a pause is missing.
    package static func shares(_ spoken: ChunkSynthesis.Spoken, _ parts: [[Unicode.Scalar]]) -> [Share]? {
        let samples = spoken.chunk.samples, edges = edges(spoken.durations), loudness = Loudness(samples[...])
        var shares: [Share] = [], place = 0, cut = 0
        for (number, part) in parts.enumerated() {
            let next = place + part.count + 1
            var end = samples.count
            if number + 1 < parts.count {
                let last = place + (sounds(part).last ?? 0), first = next + (sounds(parts[number + 1]).first ?? 0)
                guard let pause = loudness.pause(edges[last + 1] - early, edges[first + 2]) else { return nil }
                end = step * ((pause.0 + 1 + pause.1) / 2)
            }
            let inner = edges[place + 1...next].map { min(max($0, cut), end) - cut }
            shares.append(Share(
                durations: [place == 0 ? spoken.durations[0] : 0] + spoken.durations[place + 1...next], edges: [0] + inner + [end - cut],
                samples: Array(samples[cut..<end])))
            (place, cut) = (next, end)
        }
        return shares
    }

    /// A chunk's part of a call.
    package struct Share: Sendable {
        package let durations: [Int], edges: [Int], samples: [Float]
        package init(durations: [Int], edges: [Int], samples: [Float]) { (self.durations, self.edges, self.samples) = (durations, edges, samples) }
    }
}

/// A finished chunk's samples, in one piece or several, from 5 ms before the first sound to 5 ms behind the last.
package struct JoinTrim: Sendable {
    private let edges: [Int], phonemes: [Unicode.Scalar], holdFrom: Int
    private var at = 0, held: [Float] = [], begun: Bool
    /// Samples that were cut in front.
    package private(set) var start = 0

    /// `first`: of the text, which keeps what is before its first sound.
    package init(edges: [Int], phonemes: [Unicode.Scalar], first: Bool) {
        (self.edges, self.phonemes, begun) = (edges, phonemes, first)
        holdFrom = max(0, edges[(Joins.sounds(phonemes).last ?? 0) + 1] - 2400)
    }

    /// What can be heard of the next piece and of those before it.
    package mutating func callAsFunction(_ piece: [Float]) -> [Float] {
        held += piece
        at += piece.count
        if !begun {
            guard let sound = Joins.firstSound(held, edges, phonemes) else { return [] }
            (begun, start) = (true, max(0, sound - Contract.fadeSamples))
            held.removeFirst(start)
            let fading = min(Contract.fadeSamples, held.count)
            for place in 0..<fading { held[place] *= fade(place, of: fading) }
        }
        let offset = at - held.count
        if at < edges[edges.count - 1] {
            let free = min(held.count, max(0, holdFrom - offset))
            defer { held.removeFirst(free) }
            return Array(held[..<free])
        }
        let kept = max(0, min(held.count, Joins.lastSound(held, offset, edges, phonemes) + Contract.fadeSamples - offset))
        if kept < held.count {
            held.removeLast(held.count - kept)
            let fading = min(Contract.fadeSamples, kept)
            for place in 0..<fading { held[kept - 1 - place] *= fade(place, of: fading) }
        }
        return held
    }
}
