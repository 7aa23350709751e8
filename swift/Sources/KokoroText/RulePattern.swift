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
                if found >= 0 { return RuleMatch(pattern: self, text: text, start: at, end: found, places: run.state, last: run.last) }
                at += 1
                guard mode == .search, at <= end else { return nil }
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

/// One attempt. Repetitions and branches go back by a stack of this package's own, so that a long text needs no deeper stack of the thread.
struct PatternRun {
    /// Where to go on when what follows fails, and how much of `trail` stood before.
    private struct Choice { let turn: Turn, step: PatternStep, at: Int, mark: Int }
    private enum Turn { case way(Int), shorter(to: Int), longer(to: Int), leaveLoop, enterLoop }

    let units: UnsafeBufferPointer<UInt32>, end: Int
    var isFull = false, refused = -1
    /// Start and end of each group, the last group that was closed, and of each loop its count and where its round began.
    private(set) var state: [Int]
    private let lastSlot: Int
    private var choices: [Choice] = [], trail: [(slot: Int, before: Int)] = []

    init(units: UnsafeBufferPointer<UInt32>, end: Int, groups: Int, loops: Int) {
        (self.units, self.end, lastSlot) = (units, end, 2 * groups + 2)
        state = [Int](repeating: -1, count: lastSlot + 1 + 2 * loops)
        state[lastSlot] = 0
    }

    var last: Int { state[lastSlot] }

    private mutating func set(_ slot: Int, _ value: Int) {
        trail.append((slot, state[slot]))
        state[slot] = value
    }

    private mutating func undo(to mark: Int) { while trail.count > mark, let (slot, before) = trail.popLast() { state[slot] = before } }

    /// Where a match of all from `start` on ends; or -1, and as nothing had been tried. It calls itself for groups within groups only.
    mutating func walk(_ start: PatternStep, _ begin: Int) -> Int {
        let floor = choices.count, mark = trail.count
        var step: PatternStep? = start, at = begin
        while let here = step {
            var fits = take(here, &at, &step)
            while !fits {
                guard choices.count > floor, let choice = choices.popLast() else {
                    undo(to: mark)
                    return -1
                }
                undo(to: choice.mark)
                at = choice.at
                fits = goOn(choice, &at, &step)
            }
        }
        choices.removeLast(choices.count - floor)
        return at
    }

    private mutating func choose(_ turn: Turn, _ step: PatternStep, _ at: Int) {
        choices.append(Choice(turn: turn, step: step, at: at, mark: trail.count))
    }

    /// Whether a step may hold at a place, as far as its first character tells.
    private func mayBegin(_ step: PatternStep?, _ at: Int) -> Bool {
        guard let first = step?.first else { return true }
        return at < end && (units[at] >= 256 || first.contains(units[at]))
    }

    private mutating func take(_ here: PatternStep, _ at: inout Int, _ step: inout PatternStep?) -> Bool {
        step = here.next
        switch here.kind {
        case .end: return !(isFull && at != end) && at != refused
        case .stop, .nothing: return true
        case .literal(let unit):
            guard at < end, units[at] == unit else { return false }
            at += 1
        case .set(let set):
            guard at < end, set.contains(units[at]) else { return false }
            at += 1
        case .at(let code, let word): return stands(code, at, word)
        case .open(let group): set(2 * group, at)
        case .close(let group):
            set(2 * group + 1, at)
            set(lastSlot, group)
        case .back(let group):
            let start = state[2 * group], stop = state[2 * group + 1]
            guard start >= 0, stop >= start, at + stop - start <= end else { return false }
            for offset in 0..<stop - start where units[start + offset] != units[at + offset] { return false }
            at += stop - start
        case .branch(let ways): return branch(ways, from: 0, here, at, &step)
        case .single(let one, let least, let most, let greed): return takeRun(of: one, least, most, greed, here, &at)
        case .loop(_, _, _, _, let number):
            set(lastSlot + 1 + 2 * number, 0)
            set(lastSlot + 2 + 2 * number, -1)
            return again(here, at, &step)
        case .again: return here.next.map { again($0, at, &step) } ?? false
        case .possessive(let body, let least, let most):
            var count = 0
            while count < most {
                let reached = walk(body, at)
                if reached < 0 { break }
                count = reached == at ? max(count + 1, least) : count + 1
                if reached == at { break }
                at = reached
            }
            return count >= least
        case .atomic(let body):
            at = walk(body, at)
            return at >= 0
        case .look(let body, let behind, let isWanted):
            let start = at - (behind ?? 0), mark = trail.count
            let holds = start >= 0 && walk(body, start) >= 0
            if !isWanted { undo(to: mark) }
            return holds == isWanted
        }
        return true
    }

    /// The next of the ways that were left open.
    private mutating func goOn(_ choice: Choice, _ at: inout Int, _ step: inout PatternStep?) -> Bool {
        step = choice.step.next
        switch (choice.turn, choice.step.kind) {
        case (.way(let number), .branch(let ways)): return branch(ways, from: number, choice.step, at, &step)
        case (.shorter(let least), _):
            repeat { at -= 1 } while at > least && !mayBegin(step, at)
            if at > least { choose(.shorter(to: least), choice.step, at) }
        case (.longer(let limit), .single(let one, _, _, _)):
            guard fits(one, at) else { return false }
            at += 1
            if at < limit { choose(.longer(to: limit), choice.step, at) }
        case (.enterLoop, .loop(let body, _, _, _, let number)):
            enter(number, at)
            step = body
        default: break
        }
        return true
    }

    private mutating func branch(_ ways: [PatternStep], from: Int, _ here: PatternStep, _ at: Int, _ step: inout PatternStep?) -> Bool {
        for number in from..<ways.count where mayBegin(ways[number], at) {
            if number + 1 < ways.count { choose(.way(number + 1), here, at) }
            step = ways[number]
            return true
        }
        return false
    }

    private func fits(_ one: PatternStep, _ at: Int) -> Bool {
        switch one.kind {
        case .literal(let unit): units[at] == unit
        case .set(let set): set.contains(units[at])
        default: false
        }
    }

    /// A run of one character: as long as it may be, or, lazy, as short.
    private mutating func takeRun(of one: PatternStep, _ least: Int, _ most: Int, _ greed: PatternStep.Greed, _ here: PatternStep, _ at: inout Int) -> Bool {
        let from = at, limit = most > end - from ? end : from + most
        while at < (greed == .lazy ? min(limit, from + least) : limit), fits(one, at) { at += 1 }
        if at - from < least { return false }
        if greed == .greedy, at > from + least { choose(.shorter(to: from + least), here, at) }
        if greed == .lazy, at < limit { choose(.longer(to: limit), here, at) }
        return true
    }

    /// Once more round a loop, or out of it.
    private mutating func again(_ loop: PatternStep, _ at: Int, _ step: inout PatternStep?) -> Bool {
        guard case .loop(let body, let least, let most, let isGreedy, let number) = loop.kind else { return false }
        let slot = lastSlot + 1 + 2 * number, count = state[slot]
        step = loop.next
        if count < least {
            set(slot, count + 1)
            step = body
        } else if count < most, state[slot + 1] != at, mayBegin(body, at) {
            choose(isGreedy ? .leaveLoop : .enterLoop, loop, at)
            if isGreedy {
                enter(number, at)
                step = body
            }
        }
        return true
    }

    private mutating func enter(_ number: Int, _ at: Int) {
        set(lastSlot + 1 + 2 * number, state[lastSlot + 1 + 2 * number] + 1)
        set(lastSlot + 2 + 2 * number, at)
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
