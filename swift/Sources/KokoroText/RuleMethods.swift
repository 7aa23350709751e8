import Foundation
import KokoroSteps

/// What can be asked of texts, lists, tables, patterns and matches.
enum RuleMethods {
    static func call(_ name: String, _ owner: Value, _ given: [Value], _ named: [Callable.Named]) throws -> Value {
        if name == "__getitem__" { return try RuleBuiltins.item(owner, first(given, name)) }
        switch owner {
        case .text(let text): return try RuleTextMethods.call(name, text, given)
        case .list(let list): return try ofList(name, list, given, named)
        case .tuple(let items):
            if name == "index", let place = items.firstIndex(of: try first(given, name)) { return .int(place) }
            if name == "count" { return .int(items.filter { $0 == given[0] }.count) }
        case .dict(let table): return try ofTable(name, table, given)
        case .set(let table): return try ofSet(name, table, given)
        case .held(let table):
            if name == "get" { return try table.value(try first(given, name)) ?? (given.count > 1 ? given[1] : .none) }
        case .pattern(let pattern): return try ofPattern(name, pattern, given)
        case .match(let match): return try ofMatch(name, match, given)
        case .callable(let callable):
            if let held = callable as? Builtin, held.name == name { return try held.call(given, named) }
        default: break
        }
        throw broken("\(owner.kind) has no \(name)")
    }

    static func first(_ given: [Value], _ name: String) throws -> Value {
        guard let found = given.first else { throw broken("\(name) lacks an argument") }
        return found
    }

    private static func ofList(_ name: String, _ list: List, _ given: [Value], _ named: [Callable.Named]) throws -> Value {
        switch name {
        case "append": list.items.append(try first(given, name))
        case "extend": list.items += try KokoroText.items(first(given, name))
        case "pop":
            guard !list.items.isEmpty else { throw broken("nothing to pop") }
            let place = try given.first.map { try RuleBuiltins.place($0, list.items.count) } ?? list.items.count - 1
            return list.items.remove(at: place)
        case "index":
            guard let place = list.items.firstIndex(of: try first(given, name)) else { throw broken("not in the list") }
            return .int(place)
        case "count": return .int(list.items.filter { $0 == given[0] }.count)
        default: throw broken("a list has no \(name)")
        }
        return .none
    }

    private static func ofTable(_ name: String, _ table: Table, _ given: [Value]) throws -> Value {
        switch name {
        case "get": return table.value(try first(given, name)) ?? (given.count > 1 ? given[1] : .none)
        case "items": return .list(List(table.pairs.map { .tuple([$0, $1]) }))
        case "values": return .list(List(table.pairs.map(\.1)))
        case "clear": table.clear()
        case "update":
            if case .dict(let more)? = given.first { table.put(all: more) } else {
                for pair in try items(first(given, name)) {
                    let both = try items(pair)
                    table.put(both[0], both[1])
                }
            }
        default: throw broken("a table has no \(name)")
        }
        return .none
    }

    private static func ofSet(_ name: String, _ table: Table, _ given: [Value]) throws -> Value {
        switch name {
        case "add": table.put(try first(given, name))
        case "update": for item in try items(first(given, name)) { table.put(item) }
        case "union": return .set(try given.reduce(table) { $0.merged(Table(set: try items($1))) })
        default: throw broken("a set has no \(name)")
        }
        return .none
    }

    private static func ofPattern(_ name: String, _ pattern: RulePattern, _ given: [Value]) throws -> Value {
        if name == "sub" { return try substituted(pattern, given) }
        guard case .text(let text) = try first(given, name) else { throw broken("\(name) of \(given[0].kind)") }
        let from = given.count > 1 ? given[1].whole ?? 0 : 0, to = given.count > 2 ? given[2].whole : nil
        func found(_ mode: RulePattern.Mode) -> Value { pattern.match(text, from: from, to: to, mode: mode).map { .match($0) } ?? .none }
        switch name {
        case "match": return found(.match)
        case "fullmatch": return found(.full)
        case "search": return found(.search)
        case "finditer": return .list(List(pattern.matches(text, from: from, to: to).map { .match($0) }))
        case "findall":
            return .list(List(pattern.matches(text, from: from, to: to).map { match in
                func part(_ group: Int) -> Value { if case .text(let text) = match.group(group) { .text(text) } else { .empty } }
                return pattern.groups < 2 ? part(pattern.groups) : .tuple((1...pattern.groups).map(part))
            }))
        case "split":
            var parts: [Value] = [], place = 0
            for match in pattern.matches(text) {
                parts.append(.text(Text(text.units[place..<match.start])))
                if pattern.groups > 0 { parts += (1...pattern.groups).map(match.group) }
                place = match.end
            }
            return .list(List(parts + [.text(Text(text.units[place...]))]))
        default: throw broken("a pattern has no \(name)")
        }
    }

    /// A text with \1 for groups, or a function, in the place of each match.
    private static func substituted(_ pattern: RulePattern, _ given: [Value]) throws -> Value {
        guard given.count > 1, case .text(let text) = given[1] else { throw broken("sub of no text") }
        let most = given.count > 2 ? given[2].whole ?? 0 : 0
        var units: [UInt32] = [], place = 0
        for (index, match) in pattern.matches(text).enumerated() where most == 0 || index < most {
            units += text.units[place..<match.start]
            if case .text(let form) = given[0] { units += try filled(form, match) } else if case .text(let made) = try invoke(given[0], [.match(match)]) {
                units += made.units
            }
            place = match.end
        }
        return .text(Text(units + text.units[place...]))
    }

    private static func filled(_ form: Text, _ match: RuleMatch) throws -> [UInt32] {
        var units: [UInt32] = [], place = 0
        while place < form.count {
            if form.units[place] == 92, place + 1 < form.count, (48...57).contains(form.units[place + 1]) {
                if case .text(let part) = match.group(Int(form.units[place + 1]) - 48) { units += part.units }
                place += 2
            } else if form.units[place] == 92 {
                throw broken("a form with \\ and no number")
            } else {
                units.append(form.units[place])
                place += 1
            }
        }
        return units
    }

    private static func ofMatch(_ name: String, _ match: RuleMatch, _ given: [Value]) throws -> Value {
        let group = try given.first.map { try match.number($0) } ?? 0, (from, to) = match.span(group)
        switch name {
        case "start": return .int(from)
        case "end": return .int(to)
        case "span": return .tuple([.int(from), .int(to)])
        case "group": return given.count < 2 ? match.group(group) : .tuple(try given.map { match.group(try match.number($0)) })
        default: throw broken("a match has no \(name)")
        }
    }
}
