import KokoroSteps

/// Which of the first 256 characters, a bit for each.
struct LatinSet: Sendable {
    private var bits: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)

    func contains(_ unit: UInt32) -> Bool {
        let some = unit < 128 ? (unit < 64 ? bits.0 : bits.1) : (unit < 192 ? bits.2 : bits.3)
        return some >> UInt64(unit & 63) & 1 != 0
    }

    mutating func add(_ unit: UInt32) {
        withUnsafeMutableBytes(of: &bits) { $0.withMemoryRebound(to: UInt64.self) { $0[Int(unit >> 6)] |= 1 << UInt64(unit & 63) } }
    }

    mutating func add(_ other: LatinSet) {
        bits = (bits.0 | other.bits.0, bits.1 | other.bits.1, bits.2 | other.bits.2, bits.3 | other.bits.3)
    }
}

/// A set of characters: ranges, and a table of the first 256.
final class CharacterRanges: Sendable {
    private let borders: [UInt32]
    let latin: LatinSet

    /// First and last of each range, rising.
    init(_ borders: [UInt32]) {
        self.borders = borders
        var low = LatinSet()
        for place in stride(from: 0, to: borders.count - 1, by: 2) where borders[place] < 256 {
            for unit in borders[place]...min(borders[place + 1], 255) { low.add(unit) }
        }
        latin = low
    }

    func contains(_ unit: UInt32) -> Bool {
        if unit < 256 { return latin.contains(unit) }
        var from = 0, to = borders.count / 2
        while from < to {
            let middle = (from + to) / 2
            if unit > borders[2 * middle + 1] { from = middle + 1 } else { to = middle }
        }
        return from < borders.count / 2 && unit >= borders[2 * from]
    }
}

/// One step of a pattern, and the step behind it.
final class PatternStep {
    enum Kind {
        case end, stop, again, nothing
        case literal(UInt32), set(CharacterRanges), at(Int, CharacterRanges)
        case open(Int), close(Int), branch([PatternStep]), back(Int)
        case single(PatternStep, least: Int, most: Int, greed: Greed), loop(PatternStep, least: Int, most: Int, isGreedy: Bool, number: Int)
        case possessive(PatternStep, least: Int, most: Int), atomic(PatternStep), look(PatternStep, behind: Int?, isWanted: Bool)
    }
    enum Greed { case greedy, lazy, possessive }
    var kind: Kind, next: PatternStep?
    /// Which of the first 256 characters it may begin with; nil: it may match nothing, or nobody knows.
    var first: LatinSet?
    init(_ kind: Kind, next: PatternStep? = nil) { (self.kind, self.next) = (kind, next) }
}

/// A regular expression as Python's `re` has it.
final class RulePattern {
    let source: Text, groups: Int, names: [Text: Int], loops: Int
    private let start: PatternStep

    init(source: Text, groups: Int, names: [Text: Int], loops: Int, start: PatternStep) {
        (self.source, self.groups, self.names, self.loops, self.start) = (source, groups, names, loops, start)
    }

    enum Mode { case match, full, search }

    /// The first match from `place`; `isEmptyRefused`: not an empty one there.
    func match(_ text: Text, from place: Int = 0, to end: Int? = nil, mode: Mode, isEmptyRefused: Bool = false) -> RuleMatch? {
        let end = min(end ?? text.count, text.count), start = start
        var at = max(0, place)
        guard at <= end else { return nil }
        return text.units.withUnsafeBufferPointer { units -> RuleMatch? in
            var run = PatternRun(units: units, end: end, groups: groups, loops: loops)
            run.isFull = mode == .full
            while true {
                if let first = start.first, mode == .search {
                    while at < end, units[at] < 256, !first.contains(units[at]) { at += 1 }
                    if at == end { return nil }
                }
                run.refused = isEmptyRefused && at == place ? at : -1
                let found = run.walk(start, at)
                if found >= 0 { return RuleMatch(pattern: self, text: text, start: at, end: found, places: run.places, last: run.last) }
                at += 1
                guard mode == .search, at <= end else { return nil }
                run.reset()
            }
        }
    }

    /// All matches one behind the other.
    func matches(_ text: Text, from place: Int = 0, to end: Int? = nil) -> [RuleMatch] {
        var found: [RuleMatch] = [], at = place, refused = false
        while let one = match(text, from: at, to: end, mode: .search, isEmptyRefused: refused) {
            found.append(one)
            at = one.end
            refused = one.end == one.start
        }
        return found
    }
}

/// One attempt: captures, counts of loops.
struct PatternRun {
    let units: UnsafeBufferPointer<UInt32>, end: Int
    var places: [Int], last = 0, isFull = false, refused = -1
    private var counts: [Int], entered: [Int]

    init(units: UnsafeBufferPointer<UInt32>, end: Int, groups: Int, loops: Int) {
        (self.units, self.end) = (units, end)
        places = [Int](repeating: -1, count: 2 * groups + 2)
        counts = [Int](repeating: 0, count: loops)
        entered = [Int](repeating: -1, count: loops)
    }

    mutating func reset() {
        if last != 0 || places.contains(where: { $0 >= 0 }) { for place in places.indices { places[place] = -1 } }
        last = 0
    }

    /// Where a match of all from `step` on ends, or -1.
    mutating func walk(_ from: PatternStep, _ begin: Int) -> Int {
        var step = from, at = begin
        while true {
            switch step.kind {
            case .end:
                return (isFull && at != end) || at == refused ? -1 : at
            case .stop, .again:
                if case .again = step.kind, let loop = step.next { return again(loop, at) }
                return at
            case .nothing: break
            case .literal(let unit):
                guard at < end, units[at] == unit else { return -1 }
                at += 1
            case .set(let set):
                guard at < end, set.contains(units[at]) else { return -1 }
                at += 1
            case .at(let code, let word):
                guard stands(code, at, word) else { return -1 }
            case .open(let group): places[2 * group] = at
            case .close(let group):
                places[2 * group + 1] = at
                last = group
            case .back(let group):
                let start = places[2 * group], stop = places[2 * group + 1]
                guard start >= 0, stop >= start, at + stop - start <= end else { return -1 }
                for offset in 0..<stop - start where units[start + offset] != units[at + offset] { return -1 }
                at += stop - start
            case .branch(let ways):
                for way in ways {
                    if let first = way.first {
                        guard at < end else { continue }
                        if units[at] < 256, !first.contains(units[at]) { continue }
                    }
                    let found = attempt(way, at)
                    if found >= 0 { return found }
                }
                return -1
            case .single(let one, let least, let most, let greed):
                guard let reached = singles(one, at, least, most, greed, step.next) else { return -1 }
                if greed != .possessive { return reached }
                at = reached
            case .loop(_, _, _, _, let number):
                let kept = (counts[number], entered[number])
                (counts[number], entered[number]) = (0, -1)
                let found = again(step, at)
                (counts[number], entered[number]) = kept
                return found
            case .possessive(let body, let least, let most):
                var count = 0
                while count < most {
                    let found = attempt(body, at)
                    if found < 0 { break }
                    count += 1
                    if found == at { count = max(count, least); break }
                    at = found
                }
                if count < least { return -1 }
            case .atomic(let body):
                at = walk(body, at)
                if at < 0 { return -1 }
            case .look(let body, let behind, let isWanted):
                let start = at - (behind ?? 0)
                let kept = places, keptLast = last
                let found = start < 0 ? -1 : walk(body, start)
                if !isWanted || found < 0 { (places, last) = (kept, keptLast) }
                if (found >= 0) != isWanted { return -1 }
            }
            guard let next = step.next else { return at }
            step = next
        }
    }

    /// As `walk`, and as nothing had been tried where it fails.
    private mutating func attempt(_ step: PatternStep, _ at: Int) -> Int {
        let kept = places, keptLast = last
        let found = walk(step, at)
        if found < 0 { (places, last) = (kept, keptLast) }
        return found
    }

    private func fits(_ one: PatternStep, _ at: Int) -> Bool {
        switch one.kind {
        case .literal(let unit): units[at] == unit
        case .set(let set): set.contains(units[at])
        default: false
        }
    }

    /// A run of one character: where all behind it ends, or, possessive, where the run ends.
    private mutating func singles(_ one: PatternStep, _ from: Int, _ least: Int, _ most: Int, _ greed: PatternStep.Greed, _ next: PatternStep?) -> Int? {
        let limit = most > end - from ? end : from + most
        var at = from
        while at < (greed == .lazy ? min(limit, from + least) : limit), fits(one, at) { at += 1 }
        if at - from < least { return nil }
        if greed == .possessive { return at }
        guard let next else { return at }
        while true {
            let found = attempt(next, at)
            if found >= 0 { return found }
            if greed == .lazy {
                guard at < limit, fits(one, at) else { return nil }
                at += 1
            } else {
                at -= 1
                if at - from < least { return nil }
            }
        }
    }

    /// Once more round a loop, or out of it.
    private mutating func again(_ step: PatternStep, _ at: Int) -> Int {
        guard case .loop(let body, let least, let most, let isGreedy, let number) = step.kind, let next = step.next else { return -1 }
        let count = counts[number], before = entered[number]
        if count < least {
            counts[number] = count + 1
            let found = attempt(body, at)
            if found < 0 { counts[number] = count }
            return found
        }
        if !isGreedy {
            let found = attempt(next, at)
            if found >= 0 { return found }
        }
        if count < most, before != at {
            (counts[number], entered[number]) = (count + 1, at)
            let found = attempt(body, at)
            if found >= 0 { return found }
            (counts[number], entered[number]) = (count, before)
        }
        return isGreedy ? walk(next, at) : -1
    }

    private func stands(_ code: Int, _ at: Int, _ word: CharacterRanges) -> Bool {
        switch code {
        case 0, 7: return at == 0
        case 1: return at == end || (at == end - 1 && units[at] == 10)
        case 2: return at == end
        case 5: return at == 0 || units[at - 1] == 10
        case 6: return at == end || units[at] == 10
        default:
            let before = at > 0 && word.contains(units[at - 1]), after = at < end && word.contains(units[at])
            return (before != after) == (code == 3)
        }
    }
}

/// What a pattern found.
final class RuleMatch {
    let pattern: RulePattern, text: Text, start: Int, end: Int, last: Int
    private let places: [Int]

    init(pattern: RulePattern, text: Text, start: Int, end: Int, places: [Int], last: Int) {
        (self.pattern, self.text, self.start, self.end, self.last, self.places) = (pattern, text, start, end, last, places)
    }

    /// Of a group, (-1, -1) where it took no part.
    func span(_ group: Int) -> (Int, Int) {
        if group == 0 { return (start, end) }
        return places[2 * group + 1] < 0 ? (-1, -1) : (places[2 * group], places[2 * group + 1])
    }

    func group(_ group: Int) -> Value {
        let (from, to) = span(group)
        return from < 0 ? .none : .text(Text(text.units[from..<to]))
    }

    /// By number or name.
    func number(_ key: Value) throws -> Int {
        if let number = key.whole, number >= 0, number <= pattern.groups { return number }
        if case .text(let name) = key, let number = pattern.names[name] { return number }
        throw broken("no group \(key.kind)")
    }
}
