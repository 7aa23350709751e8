import Foundation
import KokoroSteps

/// Bytes of the rules, read one behind the other.
struct RuleBytes {
    let bytes: [UInt8]
    var place: Int

    mutating func byte() throws -> Int {
        guard place < bytes.count else { throw broken("the file is cut off") }
        place += 1
        return Int(bytes[place - 1])
    }

    mutating func number() throws -> Int {
        var value = 0, shift = 0
        while true {
            let next = try byte()
            guard shift < 56 else { throw broken("a number has no end") }
            value |= (next & 127) << shift
            if next < 128 { return value }
            shift += 7
        }
    }

    mutating func signed() throws -> Int {
        let value = try number()
        return value & 1 == 0 ? value >> 1 : -((value + 1) >> 1)
    }

    mutating func text() throws -> Text {
        let count = try number()
        guard place + count <= bytes.count else { throw broken("the file is cut off") }
        defer { place += count }
        return Text(Self.units(bytes[place..<place + count]))
    }

    /// UTF-8, lone surrogates among it.
    private static func units(_ content: ArraySlice<UInt8>) -> [UInt32] {
        var found: [UInt32] = []
        for byte in content {
            if byte & 0xC0 == 0x80, let last = found.last { found[found.count - 1] = last << 6 | UInt32(byte & 0x3F) } else {
                found.append(UInt32(byte < 0x80 ? byte : byte < 0xE0 ? byte & 0x1F : byte < 0xF0 ? byte & 0x0F : byte & 0x07))
            }
        }
        return found
    }

    mutating func list<Item>(_ read: (inout RuleBytes) throws -> Item) throws -> [Item] {
        let count = try number()
        var found: [Item] = []
        found.reserveCapacity(min(count, bytes.count))
        for _ in 0..<count { found.append(try read(&self)) }
        return found
    }
}

/// The kinds of what a rule file holds, by their bytes: the names and their order are those of CODES in g2p/port/rule_code.py.
enum ExpressionKind: Int {
    case const, local, outer, attribute, index, slice, call, method, binary, compare, and, or
    case not, ifElse, build, buildTable, join, comprehension, closure, negative, starred
}

enum StatementKind: Int { case expression, assign, augment, giveBack, ifElse, forEach, whileTrue, leave, again, raise, yield, yieldFrom }

enum ConstantKind: Int {
    case none, yes, no, int, float, text, tuple, list, dict, set, pattern, function, bound, partial, builtin, type, object, native, remembers
}

enum PatternKind: Int { case literal, notLiteral, set, at, branch, group, greedy, lazy, possessive, atomic, ahead, behind, back, shared }

extension RuleBytes {
    mutating func kind<Kind: RawRepresentable<Int>>(_: Kind.Type) throws -> Kind {
        guard let kind = Kind(rawValue: try byte()) else { throw broken("an unknown \(Kind.self)") }
        return kind
    }
}

/// text/us.rules: what Python's g2p does, as g2p/port/rule_program.py wrote it. Constants and functions are read when they are first asked for.
///
/// One program belongs to one actor: objects of the rules remember.
final class RuleProgram {
    /// Objects that this package holds in its own way, by the names that the file gives them.
    typealias Natives = [String: Value]
    private let bytes: [UInt8], starts: [Int]
    private var natives: Natives = [:]
    private var constants: [Value?], sets: [Int: CharacterRanges] = [:], roots: [String: Int] = [:]

    init(_ data: [UInt8], natives: (RuleProgram) throws -> Natives) throws {
        guard data.count > 12, data.prefix(4).elementsEqual("KRUL".utf8) else { throw broken("no rules in the file") }
        func word(_ place: Int) -> Int { (0..<4).reduce(0) { $0 | Int(data[place + $1]) << (8 * $1) } }
        let format = word(4), count = word(8)
        guard format == 3 else { throw broken("format \(format), not 3: bundle again, or update this package") }
        bytes = data
        var read = RuleBytes(bytes: data, place: 12), lengths: [Int] = []
        for _ in 0..<count { lengths.append(min(try read.number(), data.count)) }
        for (name, place) in try read.list({ (try $0.text().string, try $0.number()) }) { roots[name] = place }
        starts = lengths.reduce(into: [read.place]) { $0.append($0[$0.count - 1] + $1) }
        constants = Array(repeating: nil, count: count)
        self.natives = try natives(self)
    }

    /// One of the file's entrances.
    func root(_ name: String) throws -> Value {
        guard let place = roots[name] else { throw broken("no \(name)") }
        return try constant(place)
    }

    /// The id of an attribute's name: its place among the constants.
    func name(_ place: Int) throws -> String {
        guard case .text(let text) = try constant(place) else { throw broken("no name at \(place)") }
        return text.string
    }

    func reader(at place: Int) -> RuleBytes { RuleBytes(bytes: bytes, place: place) }

    func reader(of constant: Int) throws -> RuleBytes {
        guard constants.indices.contains(constant) else { throw broken("no constant \(constant)") }
        return reader(at: starts[constant])
    }

    func constant(_ place: Int) throws -> Value {
        if constants.indices.contains(place), let known = constants[place] { return known }
        var read = try reader(of: place)
        let found = try decoded(&read)
        constants[place] = found
        return found
    }

    private func next(_ read: inout RuleBytes) throws -> Value { try constant(try read.number()) }

    private func decoded(_ read: inout RuleBytes) throws -> Value {
        switch try read.kind(ConstantKind.self) {
        case .none: return .none
        case .yes: return .bool(true)
        case .no: return .bool(false)
        case .int: return .int(try read.signed())
        case .float:
            return .float(Double(bitPattern: try (0..<8).reduce(0) { try $0 | UInt64(read.byte()) << UInt64(8 * $1) }))
        case .text: return .text(try read.text())
        case .tuple: return .tuple(try read.list(next))
        case .list: return .list(List(try read.list(next)))
        case .dict:
            let table = Table()
            for (key, value) in try read.list({ (try next(&$0), try next(&$0)) }) { table.put(key, value) }
            return .dict(table)
        case .set: return .set(Table(set: try read.list(next)))
        case .pattern: return .pattern(try pattern(&read))
        case .function: return .callable(RuleFunction(try RuleTemplate(self, &read), outer: nil))
        case .bound:
            let owner = try next(&read), name = try read.number()
            guard case .object(let object) = owner, case .method(let function)? = object.type.attributes[name] else { throw broken("no method") }
            return .callable(PartialCall(function, [owner]))
        case .partial:
            let function = try next(&read), given = try read.list(next)
            return .callable(PartialCall(function, given, try read.list { (name: try $0.number(), value: try next(&$0)) }))
        case .builtin:
            let name = try read.text().string
            return .callable(RuleBuiltins.named(name, self) ?? Builtin(name) { _, _ in throw broken("\(name) is not known here") })
        case .type: return .callable(TypeCall(try type(&read)))
        case .object:
            guard case .callable(let made) = try next(&read), let type = (made as? TypeCall)?.type else { throw broken("an object of no type") }
            let object = Instance(type)
            for (name, value) in try read.list({ (try $0.number(), try next(&$0)) }) { object.set(type.slot(name), value) }
            return .object(object)
        case .native:
            let name = try read.text().string
            guard let held = natives[name] else { throw broken("\(name) is missing") }
            return held
        case .remembers:  // it remembers its answers
            let function = try next(&read)
            var known: [[Value]: Value] = [:]
            return .callable(Builtin("") { given, named in
                if let found = known[given], named.isEmpty { return found }
                if known.count == 10_000 { known = [:] }
                let found = try invoke(function, given, named)
                if named.isEmpty { known[given] = found }
                return found
            })
        }
    }

    private func type(_ read: inout RuleBytes) throws -> RuleType {
        let name = try read.text().string, isRecord = try read.byte() == 1
        let fields = try read.list { read -> RuleType.Field in
            let name = try read.number(), made = try read.byte()
            return RuleType.Field(name: name, preset: made == 1 ? try next(&read) : nil, made: made)
        }
        let found = RuleType(name: name, isRecord: isRecord, fields: fields)
        for (name, kind, value) in try read.list({ (try $0.number(), try $0.byte(), try next(&$0)) }) {
            let spelled = try self.name(name)
            if spelled == "__init__" { found.start = value } else if spelled == "__call__" { found.call = value }
            if kind != 2 { found.attributes[name] = kind == 0 ? .method(value) : kind == 1 ? .property(value) : kind == 3 ? .free(value) : .constant(value) }
        }
        return found
    }

    /// A set of characters.
    func ranges(_ place: Int) throws -> CharacterRanges {
        if let known = sets[place] { return known }
        let found = CharacterRanges(try borders(place))
        sets[place] = found
        return found
    }

    /// Steps between the borders of a set, and the place of another's that goes on.
    private func borders(_ place: Int) throws -> [UInt32] {
        var read = try reader(of: place), border = 0, found: [UInt32] = []
        for step in try read.list({ try $0.number() }) {
            border &+= step
            found.append(UInt32(truncatingIfNeeded: border))
        }
        let tail = try read.number()
        return 1...max(1, place) ~= tail ? try found + borders(tail - 1) : found
    }

    private func pattern(_ read: inout RuleBytes) throws -> RulePattern {
        let source = try read.text(), groups = try read.number()
        let names = Dictionary(try read.list { (try $0.text(), try $0.number()) }) { one, _ in one }
        var tree = PatternReader(program: self)
        let start = try tree.sequence(&read, then: PatternStep(.end))
        return RulePattern(source: source, groups: groups, names: names, loops: tree.loops, start: start)
    }
}

/// The tree of a pattern to steps. A sequence is read first and linked from its end.
struct PatternReader {
    let program: RuleProgram
    var loops = 0
    private var depth = 0
    init(program: RuleProgram) { self.program = program }

    mutating func sequence(_ read: inout RuleBytes, then last: PatternStep) throws -> PatternStep {
        let count = try read.number()
        guard count > 0 else { return last }
        let joints = (0..<count).map { _ in PatternStep(.nothing) }
        for (place, joint) in joints.enumerated() { try step(&read, into: joint, then: place + 1 < count ? joints[place + 1] : last) }
        for joint in joints.reversed() { joint.first = Self.first(joint) }
        return joints[0]
    }

    /// A sequence that ends apart from what stands behind it.
    private mutating func apart(_ read: inout RuleBytes) throws -> PatternStep { try sequence(&read, then: PatternStep(.stop)) }

    private mutating func step(_ read: inout RuleBytes, into step: PatternStep, then next: PatternStep) throws {
        step.next = next
        let kind = try read.kind(PatternKind.self)
        switch kind {
        case .literal: step.kind = .literal(UInt32(try read.number()))
        case .set: step.kind = .set(try program.ranges(try read.number()))
        case .at: step.kind = .at(try read.byte(), try program.ranges(try read.number()))
        case .branch:
            var ways: [PatternStep] = []
            for _ in 0..<(try read.number()) { ways.append(try sequence(&read, then: next)) }
            step.kind = .branch(ways)
        case .group:
            let group = try read.number()
            guard group > 0 else { step.next = try sequence(&read, then: next); return }
            step.kind = .open(group)
            step.next = try sequence(&read, then: PatternStep(.close(group), next: next))
        case .greedy, .lazy, .possessive: try loop(&read, into: step, kind)
        case .atomic: step.kind = .atomic(try apart(&read))
        case .ahead, .behind:
            let isWanted = try read.byte() == 1, width = try read.number()
            step.kind = .look(try apart(&read), behind: kind == .behind ? width : nil, isWanted: isWanted)
        case .back: step.kind = .back(try read.number())
        case .shared:
            var shared = try program.reader(of: try read.number())
            depth += 1
            guard depth < 50 else { throw broken("a pattern within itself") }
            step.next = try sequence(&shared, then: next)
            depth -= 1
        case .notLiteral: throw broken("a pattern of an unknown kind")
        }
    }

    private mutating func loop(_ read: inout RuleBytes, into step: PatternStep, _ kind: PatternKind) throws {
        let least = try read.number(), given = try read.number(), most = given == 0 ? Int.max : given - 1
        let place = read.place
        let body = try apart(&read)
        if let only = body.next, case .stop = only.kind, body.isOneCharacter {
            step.kind = .single(body, least: least, most: most, greed: kind == .greedy ? .greedy : kind == .lazy ? .lazy : .possessive)
        } else if kind == .possessive {
            step.kind = .possessive(body, least: least, most: most)
        } else {
            read.place = place  // once more, so that its end leads back here
            loops += 1
            let number = loops - 1
            step.kind = .loop(try sequence(&read, then: PatternStep(.again, next: step)), least: least, most: most, isGreedy: kind == .greedy, number: number)
        }
    }

    private static func first(_ step: PatternStep) -> LatinSet? {
        var all = LatinSet()
        switch step.kind {
        case .literal(let unit):
            if unit < 256 { all.add(unit) }
            return all
        case .set(let set): return set.latin
        case .nothing, .open, .at, .look: return step.next?.first
        case .branch(let ways):
            for way in ways {
                guard let own = way.first else { return nil }
                all.add(own)
            }
            return all
        case .single(let one, let least, _, _): return least > 0 ? first(one) : nil
        case .loop(let body, let least, _, _, _), .possessive(let body, let least, _): return least > 0 ? body.first : nil
        case .atomic(let body): return body.first
        case .end, .stop, .again, .close, .back: return nil
        }
    }
}

extension PatternStep {
    var isOneCharacter: Bool {
        switch kind {
        case .literal, .set: true
        default: false
        }
    }
}
