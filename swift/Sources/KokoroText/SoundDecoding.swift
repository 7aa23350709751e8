import Foundation

/// What the network says of a word.
struct Guess: Equatable, Sendable {
    /// Empty: spell the word.
    let phonemes: String
    /// Share of answers so certain that are right, 0 to 1.
    let confidence: Double
}

/// Logits to sounds by CTC (Graves et al. 2006): the best path, or the best with one primary stress, and the probability of its answer.
struct SoundDecoding: Sendable {
    private static let blank = 0
    private let sounds: [String], primary: [Bool], vowel: [Bool], slope: Double, shift: Double

    init(_ rules: TextRules.Network) {
        let vowels = Set(rules.vowels)
        sounds = rules.sounds
        primary = rules.sounds.map { $0.unicodeScalars.first == "ˈ" }
        vowel = rules.sounds.map { vowels.contains(String(String.UnicodeScalarView($0.unicodeScalars.drop { $0 == "ˈ" || $0 == "ˌ" }))) }
        slope = rules.confidence.slope
        shift = rules.confidence.shift
    }

    /// `logits` [S, 2 * sounds].
    func guess(_ logits: Matrix) -> Guess {
        let frames = logSoftmax(logits)
        var answer = collapsed(frames.map { row in row.indices.reduce(0) { row[$1] > row[$0] ? $1 : $0 } })
        if !isLegal(answer) { answer = collapsed(stressedPath(frames)) }
        guard isLegal(answer) else { return Guess(phonemes: "", confidence: 0) }
        let chance = min(1, exp(logLikelihood(frames, answer))), kept = min(max(chance, 1e-4), 1 - 1e-4)
        let calibrated = (slope, shift) == (1, 0) ? chance : 1 / (1 + exp(-(slope * log(kept / (1 - kept)) + shift)))
        return Guess(phonemes: answer.map { sounds[$0] }.joined(), confidence: calibrated)
    }

    /// [2S] rows of log probabilities [sounds].
    private func logSoftmax(_ logits: Matrix) -> [[Double]] {
        let width = sounds.count
        return stride(from: 0, to: logits.values.count, by: width).map { start in
            let row = logits.values[start..<start + width].map { Double($0) }, top = row.reduce(-.infinity, max)
            let total = log(row.reduce(0) { $0 + exp($1 - top) })
            return row.map { $0 - top - total }
        }
    }

    /// Repeats become one, then blanks go.
    private func collapsed(_ path: [Int]) -> [Int] {
        path.indices.filter { path[$0] != Self.blank && ($0 == 0 || path[$0] != path[$0 - 1]) }.map { path[$0] }
    }

    /// A sound at least, and exactly one primary stress where there is a vowel.
    private func isLegal(_ answer: [Int]) -> Bool {
        !answer.isEmpty && answer.filter { primary[$0] }.count == (answer.contains { vowel[$0] } ? 1 : 0)
    }

    /// The likeliest path [2S] with one primary stress: Viterbi over a frame's sound and the stresses so far, 0 or 1.
    private func stressedPath(_ frames: [[Double]]) -> [Int] {
        let count = sounds.count, first = frames[0]
        var score = [first.indices.map { primary[$0] ? -.infinity : first[$0] }, first.indices.map { primary[$0] ? first[$0] : -.infinity }]
        var back: [[Int]] = [[Int](repeating: 0, count: 2 * count)]
        for row in frames.dropFirst() {
            let best = score.map { scores in scores.indices.reduce(0) { scores[$1] > scores[$0] ? $1 : $0 } }
            var next = score, from = [Int](repeating: 0, count: 2 * count)
            for sound in 0..<count {
                let into = [primary[sound] ? -.infinity : score[0][best[0]], primary[sound] ? score[0][best[0]] : score[1][best[1]]]
                let source = [best[0], primary[sound] ? best[0] : count + best[1]]
                for stresses in 0..<2 {
                    let stays = score[stresses][sound] >= into[stresses] && !(stresses == 0 && primary[sound])
                    from[stresses * count + sound] = stays ? stresses * count + sound : source[stresses]
                    next[stresses][sound] = (stays ? score[stresses][sound] : into[stresses]) + row[sound]
                }
            }
            score = next
            back.append(from)
        }
        var state = count + score[1].indices.reduce(0) { score[1][$1] > score[1][$0] ? $1 : $0 }, path: [Int] = []
        for from in back.reversed() {
            path.append(state % count)
            state = from[state]
        }
        return path.reversed()
    }

    /// Logarithm of the summed probability of all paths that give the answer.
    private func logLikelihood(_ frames: [[Double]], _ answer: [Int]) -> Double {
        let states = [Self.blank] + answer.flatMap { [$0, Self.blank] }
        var score = [Double](repeating: -.infinity, count: states.count)
        score[0] = frames[0][states[0]]
        score[1] = frames[0][states[1]]
        for row in frames.dropFirst() {
            let before = score
            for state in states.indices {
                var sum = before[state]
                if state > 0 { sum = logSum(sum, before[state - 1]) }
                if state > 1, state % 2 == 1, states[state] != states[state - 2] { sum = logSum(sum, before[state - 2]) }
                score[state] = sum + row[states[state]]
            }
        }
        return logSum(score[score.count - 1], score[score.count - 2])
    }

    private func logSum(_ one: Double, _ other: Double) -> Double {
        let top = max(one, other)
        return top == -.infinity ? top : top + log(exp(one - top) + exp(other - top))
    }
}
