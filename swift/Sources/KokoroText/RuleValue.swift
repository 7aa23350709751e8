import KokoroSteps

/// Text by its Unicode scalars (lone surrogates too), so that places are numbers, as in the rules.
struct Text: Hashable, Sendable {
    var units: [UInt32]
    init(_ units: [UInt32]) { self.units = units }
    init(_ units: ArraySlice<UInt32>) { self.units = Array(units) }
    init(_ text: String) { units = text.unicodeScalars.map(\.value) }
    var count: Int { units.count }

    var string: String { String(String.UnicodeScalarView(units.map { Unicode.Scalar($0) ?? "\u{FFFD}" })) }

    func hash(into hasher: inout Hasher) { units.withUnsafeBytes { hasher.combine(bytes: $0) } }

    /// Of one unit.
    static func single(_ unit: UInt32) -> Text { unit < 128 ? ascii[Int(unit)] : Text([unit]) }
    private static let ascii = (0..<128).map { Text([UInt32($0)]) }
}

/// What a rule works on.
enum Value {
    case none, bool(Bool), int(Int), float(Double), text(Text), tuple([Value]), list(List), dict(Table), set(Table)
    case object(Instance), pattern(RulePattern), match(RuleMatch), callable(Callable), held(HeldTable)
    static var empty: Value { .text(Text([])) }

    var isTrue: Bool {
        switch self {
        case .none: false
        case .bool(let value): value
        case .int(let value): value != 0
        case .float(let value): value != 0
        case .text(let text): !text.units.isEmpty
        case .tuple(let items): !items.isEmpty
        case .list(let list): !list.items.isEmpty
        case .dict(let table), .set(let table): !table.keys.isEmpty
        case .object, .pattern, .match, .callable, .held: true
        }
    }

    /// For messages.
    var kind: String {
        switch self {
        case .text(let text): "\"\(text.string.prefix(40))\""
        case .object(let object): "a \(object.type.name)"
        default: Mirror(reflecting: self).children.first?.label ?? "none"
        }
    }
}

/// The rules do what they may not: a defect of the bundle or of this package, never of the text.
func broken(_ what: String) -> KokoroError { .badFile("text", reason: "the rules fail: \(what)") }

extension Value: Hashable {
    static func == (one: Value, other: Value) -> Bool {
        switch (one, other) {
        case (.text(let a), .text(let b)): a.units == b.units
        case (.none, .none): true
        case (.tuple(let a), .tuple(let b)): a == b
        case (.list(let a), .list(let b)): a === b || a.items == b.items
        case (.set(let a), .set(let b)): a.keys.count == b.keys.count && a.keys.allSatisfy(b.contains)
        case (.dict(let a), .dict(let b)): a.keys.count == b.keys.count && a.keys.allSatisfy { a.value($0) == b.value($0) }
        case (.object(let a), .object(let b)): a === b || (a.type === b.type && a.type.isRecord && a.values == b.values)
        case (.pattern(let a), .pattern(let b)): a === b
        case (.match(let a), .match(let b)): a === b
        case (.callable(let a), .callable(let b)): a === b
        default: one.number.flatMap { a in other.number.map { a == $0 } } ?? false
        }
    }

    func hash(into hasher: inout Hasher) {
        switch self {
        case .text(let text): text.hash(into: &hasher)
        case .tuple(let items): for item in items { item.hash(into: &hasher) }
        case .bool, .int, .float: (number ?? 0).hash(into: &hasher)
        case .object(let object) where !object.type.isRecord: ObjectIdentifier(object).hash(into: &hasher)
        default: break
        }
    }

    var number: Double? {
        switch self {
        case .bool(let value): value ? 1 : 0
        case .int(let value): Double(value)
        case .float(let value): value
        default: nil
        }
    }

    var whole: Int? {
        switch self {
        case .bool(let value): value ? 1 : 0
        case .int(let value): value
        default: nil
        }
    }

    /// Whether both are one and the same.
    func isSame(_ other: Value) -> Bool {
        switch (self, other) {
        case (.object(let a), .object(let b)): a === b
        case (.list(let a), .list(let b)): a === b
        case (.bool(let a), .bool(let b)): a == b
        case (.bool, _), (_, .bool): false
        default: self == other
        }
    }

    /// Below 0, 0 or above 0.
    func order(_ other: Value) throws -> Int {
        if let a = number, let b = other.number { return a < b ? -1 : a == b ? 0 : 1 }
        switch (self, other) {
        case (.text(let a), .text(let b)): return a.units == b.units ? 0 : a.units.lexicographicallyPrecedes(b.units) ? -1 : 1
        case (.tuple(let a), .tuple(let b)):
            for (one, two) in zip(a, b) where one != two { return try one.order(two) }
            return a.count - b.count
        default: throw broken("\(kind) and \(other.kind) have no order")
        }
    }
}

/// A list that its holders share.
final class List {
    var items: [Value]
    init(_ items: [Value]) { self.items = items }
}

/// Keys in the order they came, with their values where it is no set.
final class Table {
    private(set) var keys: [Value] = []
    private var places: [Value: Int] = [:], values: [Value] = []
    init() {}
    init(set items: [Value], value: Value = .none) { for item in items { put(item, value) } }
    func contains(_ key: Value) -> Bool { places[key] != nil }
    func value(_ key: Value) -> Value? { places[key].map { values[$0] } }
    var pairs: [(Value, Value)] { Array(zip(keys, values)) }

    func put(_ key: Value, _ value: Value = .none) {
        if let place = places[key] {
            values[place] = value
        } else {
            places[key] = keys.count
            keys.append(key)
            values.append(value)
        }
    }

    func put(all other: Table) { for (key, value) in other.pairs { put(key, value) } }
    func merged(_ other: Table) -> Table {
        let made = copy()
        made.put(all: other)
        return made
    }
    func clear() { (keys, places, values) = ([], [:], []) }
    func copy() -> Table {
        let made = Table()
        (made.keys, made.places, made.values) = (keys, places, values)
        return made
    }
}

/// A table that this package holds in a way of its own: word lists, mapped into memory.
final class HeldTable {
    let value: (Value) throws -> Value?
    init(_ value: @escaping (Value) throws -> Value?) { self.value = value }
}

/// A kind of objects: what they hold, and what can be asked of them.
final class RuleType {
    enum Attribute { case method(Value), property(Value), free(Value), constant(Value) }
    struct Field { let name: Int, preset: Value?, made: Int }
    let name: String, isRecord: Bool, fields: [Field]
    var attributes: [Int: Attribute] = [:], slots: [Int: Int] = [:]
    /// What makes an object ready, and what answers where one is called.
    var start: Value?, call: Value?

    init(name: String, isRecord: Bool, fields: [Field]) {
        (self.name, self.isRecord, self.fields) = (name, isRecord, fields)
        for field in fields { slots[field.name] = slots.count }
    }

    /// Where an object holds an attribute of this name.
    func slot(_ name: Int) -> Int {
        if let found = slots[name] { return found }
        slots[name] = slots.count
        return slots.count - 1
    }
}

/// An object.
final class Instance {
    let type: RuleType
    var values: [Value]
    init(_ type: RuleType, values: [Value] = []) { (self.type, self.values) = (type, values) }

    func set(_ slot: Int, _ value: Value) {
        while values.count <= slot { values.append(.none) }
        values[slot] = value
    }
}

/// What can be called.
class Callable {
    typealias Named = (name: Int, value: Value)
    func call(_ given: [Value], _ named: [Named]) throws -> Value { throw broken("it cannot be called") }

    /// As a call stands in a rule; `own`: what stands before the arguments.
    func call(_ own: Value?, _ given: RuleArguments, _ frame: Frame) throws -> Value {
        let values = try given.values(frame)
        return try call(own.map { [$0] + values } ?? values, given.named(frame))
    }
}

/// A function of this package.
final class Builtin: Callable {
    let name: String
    private let body: ([Value], [Named]) throws -> Value
    init(_ name: String, _ body: @escaping ([Value], [Named]) throws -> Value) { (self.name, self.body) = (name, body) }
    override func call(_ given: [Value], _ named: [Named]) throws -> Value { try body(given, named) }
}
