import Foundation
import KokoroSteps

/// Operators and functions that the rules use without defining them.
enum RuleBuiltins {
    /// In the order of OPERATORS in g2p/port/rule_program.py.
    static func operation(_ code: Int) -> (Value, Value) throws -> Value {
        switch code {
        case 0: added
        case 1: { one, other in
            if case .set(let a) = one, case .set(let b) = other { return .set(Table(set: a.keys.filter { !b.contains($0) })) }
            return try arithmetic(one, other, -, -)
        }
        case 2: multiplied
        case 3: { one, other in
            guard let a = one.number, let b = other.number, b != 0 else { throw broken("\(one.kind) by \(other.kind)") }
            return .float(a / b)
        }
        case 4: { one, other in .int(try divided(one, other).0) }
        case 5: { one, other in .int(try divided(one, other).1) }
        case 6: { one, other in
            switch (one, other) {
            case (.set(let a), .set(let b)): return .set(a.merged(b))
            case (.dict(let a), .dict(let b)): return .dict(a.merged(b))
            default: return .int((one.whole ?? 0) | (other.whole ?? 0))
            }
        }
        case 7: { one, other in
            guard case .set(let a) = one, case .set(let b) = other else { return .int((one.whole ?? 0) & (other.whole ?? 0)) }
            let (small, large) = a.keys.count < b.keys.count ? (a, b) : (b, a)
            return .set(Table(set: small.keys.filter(large.contains)))
        }
        default: { one, other in throw broken("\(one.kind) with \(other.kind)") }
        }
    }

    private static func arithmetic(_ one: Value, _ other: Value, _ whole: (Int, Int) -> Int, _ real: (Double, Double) -> Double) throws -> Value {
        if let a = one.whole, let b = other.whole { return .int(whole(a, b)) }
        guard let a = one.number, let b = other.number else { throw broken("\(one.kind) with \(other.kind)") }
        return .float(real(a, b))
    }

    private static func added(_ one: Value, _ other: Value) throws -> Value {
        switch (one, other) {
        case (.text(let a), .text(let b)): return .text(Text(a.units + b.units))
        case (.list(let a), .list(let b)): return .list(List(a.items + b.items))
        case (.tuple(let a), .tuple(let b)): return .tuple(a + b)
        case (.dict(let a), .dict(let b)):  // counts
            let made = Table()
            for (key, count) in a.pairs + b.pairs.filter({ !a.contains($0.0) }) {
                let total = (count.whole ?? 0) + (a.contains(key) ? b.value(key)?.whole ?? 0 : 0)
                if total > 0 { made.put(key, .int(total)) }
            }
            return .dict(made)
        default: return try arithmetic(one, other, &+, +)
        }
    }

    private static func multiplied(_ one: Value, _ other: Value) throws -> Value {
        switch (one, other) {
        case (.text(let text), let times), (let times, .text(let text)):
            if let count = times.whole { return .text(Text(Array(repeatElement(text.units, count: max(count, 0)).joined()))) }
        case (.list(let list), let times), (let times, .list(let list)):
            if let count = times.whole { return .list(List(Array(repeatElement(list.items, count: max(count, 0)).joined()))) }
        case (.tuple(let items), let times), (let times, .tuple(let items)):
            if let count = times.whole { return .tuple(Array(repeatElement(items, count: max(count, 0)).joined())) }
        default: return try arithmetic(one, other, &*, *)
        }
        throw broken("\(one.kind) times \(other.kind)")
    }

    /// Quotient towards minus infinity, and the rest.
    private static func divided(_ one: Value, _ other: Value) throws -> (Int, Int) {
        guard let a = one.whole, let b = other.whole, b != 0 else { throw broken("\(one.kind) by \(other.kind)") }
        let rest = a % b, isOff = rest != 0 && (rest < 0) != (b < 0)
        return (a / b - (isOff ? 1 : 0), isOff ? rest + b : rest)
    }

    /// In the order of COMPARISONS.
    static func holds(_ code: Int, _ one: Value, _ other: Value) throws -> Bool {
        switch code {
        case 0: one == other
        case 1: one != other
        case 2: try one.order(other) < 0
        case 3: try one.order(other) <= 0
        case 4: try one.order(other) > 0
        case 5: try one.order(other) >= 0
        case 6: one.isSame(other)
        case 7: !one.isSame(other)
        case 8: try contains(other, one)
        default: try !contains(other, one)
        }
    }

    private static func contains(_ holder: Value, _ item: Value) throws -> Bool {
        switch holder {
        case .set(let table), .dict(let table): return table.contains(item)
        case .tuple(let items): return items.contains(item)
        case .list(let list): return list.items.contains(item)
        case .held(let table): return try table.value(item) != nil
        case .text(let text):
            guard case .text(let part) = item else { throw broken("\(item.kind) in a text") }
            return part.count == 1 ? text.units.contains(part.units[0]) : RuleTextMethods.find(part, in: text, 0..<text.count) != nil
        default: throw broken("\(item.kind) in \(holder.kind)")
        }
    }

    static func place(_ key: Value, _ count: Int) throws -> Int {
        guard let given = key.whole else { throw broken("place \(key.kind)") }
        let found = given < 0 ? given + count : given
        guard found >= 0, found < count else { throw broken("place \(given) of \(count)") }
        return found
    }

    static func item(_ owner: Value, _ key: Value) throws -> Value {
        switch owner {
        case .text(let text): return .text(Text.single(text.units[try place(key, text.count)]))
        case .tuple(let items): return items[try place(key, items.count)]
        case .list(let list): return list.items[try place(key, list.items.count)]
        case .match(let match): return match.group(try match.number(key))
        case .dict(let table):
            if let found = table.value(key) { return found }
        case .held(let table):
            if let found = try table.value(key) { return found }
        default: break
        }
        throw broken("no \(key.kind) in \(owner.kind)")
    }

    static func slice(_ owner: Value, _ lower: Value, _ upper: Value, _ step: Value) throws -> Value {
        let stride = step.whole ?? 1
        func cut<Item>(_ items: [Item]) -> [Item] {
            func bound(_ value: Value, _ preset: Int) -> Int {
                guard let given = value.whole else { return preset }
                return min(max(given < 0 ? given + items.count : given, stride < 0 ? -1 : 0), stride < 0 ? items.count - 1 : items.count)
            }
            let from = bound(lower, stride < 0 ? items.count - 1 : 0), to = bound(upper, stride < 0 ? -1 : items.count)
            if stride == 1 { return from < to ? Array(items[from..<to]) : [] }
            return Swift.stride(from: from, to: to, by: stride).map { items[$0] }
        }
        switch owner {
        case .text(let text): return .text(Text(cut(text.units)))
        case .tuple(let items): return .tuple(cut(items))
        case .list(let list): return .list(List(cut(list.items)))
        default: throw broken("a part of \(owner.kind)")
        }
    }

    /// As an f-string writes it.
    static func written(_ value: Value, _ format: String = "") throws -> String {
        switch value {
        case .text(let text): return format == "r" ? "'\(text.string)'" : text.string
        case .int(let number):
            guard ["", "d", "+d", "r"].contains(format) else { throw broken("the format \(format)") }
            return format == "+d" && number >= 0 ? "+\(number)" : "\(number)"
        case .none: return "None"
        case .bool(let value): return value ? "True" : "False"
        case .float(let number) where format.isEmpty: return "\(number)"
        default: throw broken("\(value.kind) is written")
        }
    }

    static func named(_ name: String, _ program: RuleProgram) -> Builtin? {
        if name.hasPrefix("str.") {
            let method = String(name.dropFirst(4))
            return Builtin(name) { given, _ in try RuleMethods.call(method, try RuleMethods.first(given, name), Array(given.dropFirst()), []) }
        }
        if name == "getattr" {
            return Builtin(name) { given, _ in
                if case .object(let object) = given[0], case .text(let wanted) = given[1] {
                    for (id, attribute) in object.type.attributes where try program.name(id) == wanted.string {
                        if case .method(let function) = attribute { return .callable(PartialCall(function, [given[0]])) }
                    }
                    for (id, slot) in object.type.slots where try program.name(id) == wanted.string && slot < object.values.count { return object.values[slot] }
                }
                guard given.count > 2 else { throw broken("\(given[0].kind) has no \(given[1].kind)") }
                return given[2]
            }
        }
        if name == "dataclasses.replace" {
            return Builtin(name) { given, named in
                guard case .object(let object)? = given.first else { throw broken("replace of no object") }
                let made = Instance(object.type, values: object.values)
                for one in named { made.set(made.type.slot(one.name), one.value) }
                return .object(made)
            }
        }
        guard let body = table[name] else { return nil }
        return Builtin(name) { given, named in
            try body(given, Dictionary(try named.map { (try program.name($0.name), $0.value) }) { one, _ in one })
        }
    }

    private typealias Function = @Sendable ([Value], [String: Value]) throws -> Value
    private static let asSet: Function = { given, _ in .set(Table(set: try given.first.map { try items($0) } ?? [])) }
    private static let table: [String: Function] = [
        "len": { given, _ in .int(try count(given[0])) },
        "bool": { given, _ in .bool(given.first?.isTrue ?? false) },
        "str": { given, _ in given.isEmpty ? .empty : .text(Text(try written(given[0]))) },
        "int": { given, _ in .int(try RuleTextMethods.integer(given[0], base: given.count > 1 ? given[1].whole ?? 10 : 10)) },
        "float": { given, _ in
            if let number = given[0].number { return .float(number) }
            guard case .text(let text) = given[0], let number = Double(text.string) else { throw broken("\(given[0].kind) as a number") }
            return .float(number)
        },
        "list": { given, _ in .list(List(try given.first.map { try items($0) } ?? [])) },
        "tuple": { given, _ in .tuple(try given.first.map { try items($0) } ?? []) },
        "iter": { given, _ in .list(List(try items(given[0]))) },
        "reversed": { given, _ in .list(List(try items(given[0]).reversed())) },
        "set": asSet, "frozenset": asSet,
        "dict": { given, _ in
            let made = Table()
            if case .dict(let more)? = given.first { return .dict(more.copy()) }
            for pair in try given.first.map({ try items($0) }) ?? [] {
                let both = try items(pair)
                made.put(both[0], both[1])
            }
            return .dict(made)
        },
        "fromkeys": { given, _ in .dict(Table(set: try items(given[0]), value: given.count > 1 ? given[1] : .none)) },
        "collections.Counter": { given, _ in
            guard let source = given.first, source != .none else { return .dict(Table()) }
            if case .dict(let table) = source { return .dict(table.copy()) }
            let made = Table()
            for item in try items(source) { made.put(item, .int((made.value(item)?.whole ?? 0) + 1)) }
            return .dict(made)
        },
        "range": { given, _ in
            let numbers = given.map { $0.whole ?? 0 }
            let from = numbers.count > 1 ? numbers[0] : 0, to = numbers.count > 1 ? numbers[1] : numbers[0]
            return .list(List(stride(from: from, to: to, by: numbers.count > 2 ? numbers[2] : 1).map { .int($0) }))
        },
        "enumerate": { given, named in
            let start = (given.count > 1 ? given[1] : named["start"])?.whole ?? 0
            return .list(List(try items(given[0]).enumerated().map { .tuple([.int($0 + start), $1]) }))
        },
        "zip": { given, named in
            let all = try given.map { try items($0) }, least = all.map(\.count).min() ?? 0
            if named["strict"]?.isTrue ?? false, all.contains(where: { $0.count != least }) { throw broken("zip of different lengths") }
            return .list(List((0..<least).map { place in .tuple(all.map { $0[place] }) }))
        },
        "map": { given, _ in .list(List(try items(given[1]).map { try invoke(given[0], [$0]) })) },
        "filter": { given, _ in .list(List(try items(given[1]).filter { try (given[0].isTrue ? invoke(given[0], [$0]) : $0).isTrue })) },
        "any": { given, _ in .bool(try items(given[0]).contains(where: \.isTrue)) },
        "all": { given, _ in .bool(try items(given[0]).allSatisfy(\.isTrue)) },
        "next": { given, _ in
            guard let found = try items(given[0]).first ?? (given.count > 1 ? given[1] : nil) else { throw broken("nothing is next") }
            return found
        },
        "sum": { given, _ in try items(given[0]).reduce(given.count > 1 ? given[1] : .int(0), added) },
        "max": { given, named in try best(given, named) { $0 > 0 } },
        "min": { given, named in try best(given, named) { $0 < 0 } },
        "sorted": { given, named in
            let all = try items(given[0]), keys = try named["key"].map { key in try all.map { try invoke(key, [$0]) } } ?? all
            let isDown = named["reverse"]?.isTrue ?? false
            let order = try keys.indices.sorted {
                let found = try keys[$0].order(keys[$1])
                return found == 0 ? $0 < $1 : (found < 0) != isDown
            }
            return .list(List(order.map { all[$0] }))
        },
        "divmod": { given, _ in .tuple([.int(try divided(given[0], given[1]).0), .int(try divided(given[0], given[1]).1)]) },
        "chr": { given, _ in .text(Text.single(UInt32(given[0].whole ?? 0))) },
        "ord": { given, _ in
            guard case .text(let text) = given[0], text.count == 1 else { throw broken("ord of \(given[0].kind)") }
            return .int(Int(text.units[0]))
        },
        "isinstance": { given, _ in .bool(isKind(given[0], given[1])) },
        "functools.partial": { given, _ in .callable(PartialCall(given[0], Array(given.dropFirst()), [])) },
        "math.exp": { given, _ in .float(Foundation.exp(given[0].number ?? 0)) },
        "_bisect.bisect_right": { given, _ in
            let all = try items(given[0])
            var from = 0, to = all.count
            while from < to {
                let middle = (from + to) / 2
                if try given[1].order(all[middle]) < 0 { to = middle } else { from = middle + 1 }
            }
            return .int(from)
        },
        "zlib.crc32": { given, _ in
            guard case .text(let text) = given[0] else { throw broken("crc32 of \(given[0].kind)") }
            return .int(Int(crc32(text.string)))
        },
        "unicodedata.normalize": { given, _ in .text(try RuleTextMethods.normalized(given)) },
        "unicodedata.combining": { given, _ in .int(Int(try scalar(given).properties.canonicalCombiningClass.rawValue)) },
        "unicodedata.category": { given, _ in .text(Text(RuleTextMethods.category(try scalar(given)))) },
        "unicodedata.decimal": { given, _ in .int(Int(try scalar(given).properties.numericValue ?? 0)) },
        "unicodedata.name": { given, _ in
            guard let name = try scalar(given).properties.name else { return given.count > 1 ? given[1] : .empty }
            return .text(Text(name))
        },
    ]

    private static func scalar(_ given: [Value]) throws -> Unicode.Scalar {
        guard case .text(let text)? = given.first, text.count == 1 else { throw broken("no single character") }
        return Unicode.Scalar(text.units[0]) ?? "\u{FFFD}"
    }

    private static func count(_ value: Value) throws -> Int {
        switch value {
        case .text(let text): return text.count
        case .tuple(let items): return items.count
        case .list(let list): return list.items.count
        case .dict(let table), .set(let table): return table.keys.count
        default: throw broken("the length of \(value.kind)")
        }
    }

    /// The first of equals.
    private static func best(_ given: [Value], _ named: [String: Value], _ isBetter: (Int) -> Bool) throws -> Value {
        let all = given.count > 1 ? given : try items(given[0]), key = named["key"]
        guard var found = all.first else {
            guard let preset = named["default"] else { throw broken("the most of nothing") }
            return preset
        }
        var most = try key.map { try invoke($0, [found]) } ?? found
        for item in all.dropFirst() {
            let own = try key.map { try invoke($0, [item]) } ?? item
            if isBetter(try own.order(most)) { (found, most) = (item, own) }
        }
        return found
    }

    private static func isKind(_ value: Value, _ kind: Value) -> Bool {
        if case .tuple(let kinds) = kind { return kinds.contains { isKind(value, $0) } }
        guard case .callable(let callable) = kind else { return false }
        if let type = callable as? TypeCall, case .object(let object) = value { return object.type === type.type }
        return switch (value, (callable as? Builtin)?.name ?? "") {
        case (.text, "str"), (.bool, "bool"), (.bool, "int"), (.int, "int"), (.float, "float"), (.tuple, "tuple"), (.list, "list"), (.dict, "dict"): true
        default: false
        }
    }
}
