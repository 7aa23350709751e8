import KokoroSteps

/// The names of a function that runs.
final class Frame {
    var slots: [Value], result = Value.none, yielded: [Value] = []
    let outer: Frame?
    init(_ count: Int, outer: Frame?) {
        slots = [Value](repeating: .none, count: count)
        self.outer = outer
    }
}

typealias Code = (Frame) throws -> Value
typealias Step = (Frame) throws -> Flow
/// What comes behind a statement.
enum Flow { case next, leave, again, done }

/// A function as it is written. Its body is made at the first call.
final class RuleTemplate {
    let name: String, isWhole: Bool
    private(set) var plain: [Int] = [], presets: [Value] = [], only: [(name: Int, preset: Value?)] = []
    private(set) var hasRest = false, yields = false, slots = 0
    private let program: RuleProgram, place: Int
    private var made: Step?

    init(_ program: RuleProgram, _ read: inout RuleBytes) throws {
        self.program = program
        name = try read.text().string
        isWhole = try read.number() == 1
        guard isWhole else { place = read.place; return }
        plain = try read.list { try $0.number() }
        presets = try read.list { try program.constant(try $0.number()) }
        only = try read.list { read in
            let name = try read.number()
            return (name, try read.byte() == 1 ? try program.constant(try read.number()) : nil)
        }
        hasRest = try read.byte() == 1
        yields = try read.byte() == 1
        slots = try read.number()
        place = read.place
    }

    /// Past the body of a function within another.
    func skip(_ read: inout RuleBytes) throws {
        var compiler = RuleCompiler(program, read)
        made = try compiler.block()
        read.place = compiler.read.place
    }

    func body() throws -> Step {
        if let made { return made }
        guard isWhole else { throw KokoroError.unsupported("\(name) cannot be run by this package") }
        var compiler = RuleCompiler(program, program.reader(at: place))
        let found = try compiler.block()
        made = found
        return found
    }

    func run(_ frame: Frame) throws -> Value {
        let flow = try body()(frame)
        if yields { return .list(List(frame.yielded)) }
        return flow == .done ? frame.result : .none
    }
}

/// What a call is given.
struct RuleArguments {
    let codes: [(isStarred: Bool, code: Code)], names: [(name: Int, code: Code)], isPlain: Bool

    init(codes: [(isStarred: Bool, code: Code)], names: [(name: Int, code: Code)]) {
        (self.codes, self.names, isPlain) = (codes, names, !codes.contains(where: \.isStarred))
    }

    func values(_ frame: Frame) throws -> [Value] {
        var found: [Value] = []
        found.reserveCapacity(codes.count)
        for (isStarred, code) in codes { if isStarred { found += try items(code(frame)) } else { found.append(try code(frame)) } }
        return found
    }

    func named(_ frame: Frame) throws -> [Callable.Named] { try names.map { ($0.name, try $0.code(frame)) } }
}

/// A function with the frame that it was made in.
final class RuleFunction: Callable {
    let template: RuleTemplate, outer: Frame?
    init(_ template: RuleTemplate, outer: Frame?) { (self.template, self.outer) = (template, outer) }

    override func call(_ given: [Value], _ named: [Named]) throws -> Value {
        let frame = Frame(template.slots, outer: outer), plain = template.plain.count
        guard given.count <= plain || template.hasRest else { throw broken("\(template.name) takes \(plain), not \(given.count)") }
        for place in 0..<min(plain, given.count) { frame.slots[place] = given[place] }
        if template.hasRest { frame.slots[plain + template.only.count] = .tuple(Array(given.dropFirst(plain))) }
        try fill(frame, from: given.count, named)
        return try template.run(frame)
    }

    /// Arguments go to their slots as they are computed.
    override func call(_ own: Value?, _ given: RuleArguments, _ frame: Frame) throws -> Value {
        var count = own == nil ? 0 : 1
        guard given.isPlain, !template.hasRest, count + given.codes.count <= template.plain.count else { return try super.call(own, given, frame) }
        let inner = Frame(template.slots, outer: outer)
        if let own { inner.slots[0] = own }
        for (_, code) in given.codes {
            inner.slots[count] = try code(frame)
            count += 1
        }
        try fill(inner, from: count, given.named(frame))
        return try template.run(inner)
    }

    /// What is given by name, and what is preset.
    func fill(_ frame: Frame, from count: Int, _ named: [Named]) throws {
        let plain = template.plain.count, firstPreset = plain - template.presets.count
        if count >= plain, template.only.isEmpty, named.isEmpty { return }
        for place in stride(from: count, to: plain, by: 1) {
            if let own = named.first(where: { $0.name == template.plain[place] }) { frame.slots[place] = own.value } else {
                guard place >= firstPreset else { throw broken("\(template.name) lacks an argument") }
                frame.slots[place] = template.presets[place - firstPreset]
            }
        }
        for (offset, one) in template.only.enumerated() {
            guard let value = named.first(where: { $0.name == one.name })?.value ?? one.preset else { throw broken("\(template.name) lacks an argument") }
            frame.slots[plain + offset] = value
        }
    }
}

/// A function with some of its arguments, or a method with its object.
final class PartialCall: Callable {
    private let function: Value, given: [Value], named: [Named]
    init(_ function: Value, _ given: [Value], _ named: [Named] = []) { (self.function, self.given, self.named) = (function, given, named) }
    override func call(_ more: [Value], _ others: [Named]) throws -> Value { try invoke(function, given + more, named + others) }
}

/// A type: called, it makes an object.
final class TypeCall: Callable {
    let type: RuleType
    init(_ type: RuleType) { self.type = type }

    override func call(_ given: [Value], _ named: [Named]) throws -> Value {
        if type.isRecord, named.isEmpty, given.count == type.fields.count { return .object(Instance(type, values: given)) }
        let object = Instance(type)
        if !type.isRecord {
            if let function = type.start { _ = try invoke(function, [.object(object)] + given, named) }
            return .object(object)
        }
        var values: [Value] = []
        for (place, field) in type.fields.enumerated() {
            if place < given.count { values.append(given[place]) } else if let own = named.first(where: { $0.name == field.name }) { values.append(own.value) } else {
                switch field.made {
                case 1: values.append(field.preset ?? .none)
                case 2: values.append(.list(List([])))
                case 3: values.append(.set(Table()))
                case 4: values.append(.dict(Table()))
                default: throw broken("\(type.name) lacks an argument")
                }
            }
        }
        object.values = values
        return .object(object)
    }
}

func invoke(_ function: Value, own: Value? = nil, _ given: RuleArguments, _ frame: Frame) throws -> Value {
    if case .callable(let callable) = function { return try callable.call(own, given, frame) }
    return try invoke(function, (own.map { [$0] } ?? []) + given.values(frame), given.named(frame))
}

func invoke(_ function: Value, _ given: [Value], _ named: [Callable.Named] = []) throws -> Value {
    switch function {
    case .callable(let callable): return try callable.call(given, named)
    case .object(let object):
        guard let body = object.type.call else { throw broken("\(function.kind) is called") }
        return try invoke(body, [function] + given, named)
    default: throw broken("\(function.kind) is called")
    }
}

/// What a value gives one by one.
func items(_ value: Value) throws -> [Value] {
    switch value {
    case .tuple(let items): items
    case .list(let list): list.items
    case .dict(let table), .set(let table): table.keys
    case .text(let text): text.units.map { .text(Text.single($0)) }
    default: throw broken("\(value.kind) has no items")
    }
}
