import KokoroSteps

/// Code of the rules to closures.
struct RuleCompiler {
    private let program: RuleProgram
    var read: RuleBytes
    init(_ program: RuleProgram, _ read: RuleBytes) { (self.program, self.read) = (program, read) }

    /// As many of a kind as the next number says.
    private mutating func many<Item>(_ one: (inout RuleCompiler) throws -> Item) throws -> [Item] {
        var found: [Item] = []
        for _ in 0..<(try read.number()) { found.append(try one(&self)) }
        return found
    }

    /// A statement behind which the next one comes.
    private static func doing(_ body: @escaping (Frame) throws -> Void) -> Step { { frame in try body(frame); return .next } }

    mutating func block() throws -> Step {
        let all = try many { try $0.statement() }
        if all.count == 1 { return all[0] }
        return { frame in
            for step in all {
                let flow = try step(frame)
                if flow != .next { return flow }
            }
            return .next
        }
    }

    private mutating func statement() throws -> Step {
        switch try read.kind(StatementKind.self) {
        case .expression:
            let value = try expression()
            return Self.doing { _ = try value($0) }
        case .assign: return try assignment()
        case .augment: return try augmentation()
        case .giveBack:
            let value = try expression()
            return { frame in
                frame.result = try value(frame)
                return .done
            }
        case .ifElse:
            let test = try expression(), body = try block(), other = try block()
            return { frame in try test(frame).isTrue ? body(frame) : other(frame) }
        case .forEach: return try forLoop()
        case .whileTrue:
            let test = try expression(), body = try block()
            return { frame in
                while try test(frame).isTrue {
                    let flow = try body(frame)
                    if flow == .done { return .done }
                    if flow == .leave { break }
                }
                return .next
            }
        case .leave: return { _ in .leave }
        case .again: return { _ in .again }
        case .raise:
            let value = try expression()
            return { frame in throw KokoroError.unsupported(try RuleBuiltins.written(value(frame))) }
        case .yield:
            let value = try expression()
            return Self.doing { $0.yielded.append(try value($0)) }
        case .yieldFrom:
            let value = try expression()
            return Self.doing { $0.yielded += try items(value($0)) }
        }
    }

    private mutating func assignment() throws -> Step {
        let value = try expression(), all = try many { try $0.target() }, first = all[0]
        if all.count == 1 { return Self.doing { try first($0, try value($0)) } }
        return Self.doing { frame in
            let found = try value(frame)
            for one in all { try one(frame, found) }
        }
    }

    private mutating func augmentation() throws -> Step {
        let combine = RuleBuiltins.operation(try read.byte()), begin = read.place
        let put = try target(), after = read.place
        read.place = begin
        let old = try expression()  // a target that is one name, attribute or item reads as it is written
        read.place = after
        let more = try expression()
        return Self.doing { frame in
            let before = try old(frame), added = try more(frame)
            if case .list(let list) = before { list.items += try items(added) } else { try put(frame, try combine(before, added)) }
        }
    }

    private mutating func forLoop() throws -> Step {
        let source = try expression(), put = try target(), body = try block(), other = try block()
        return { frame in
            for item in try items(source(frame)) {
                try put(frame, item)
                let flow = try body(frame)
                if flow == .done { return .done }
                if flow == .leave { return .next }
            }
            return try other(frame)
        }
    }

    private mutating func target() throws -> (Frame, Value) throws -> Void {
        switch try read.kind(ExpressionKind.self) {
        case .local:
            let slot = try read.number()
            return { frame, value in frame.slots[slot] = value }
        case .attribute:
            let owner = try expression(), name = try read.number()
            return { frame, value in
                guard case .object(let object) = try owner(frame) else { throw broken("an attribute of no object") }
                object.set(object.type.slot(name), value)
            }
        case .index:
            let owner = try expression(), key = try expression()
            return { frame, value in
                switch try owner(frame) {
                case .dict(let table): table.put(try key(frame), value)
                case .list(let list):
                    let place = try RuleBuiltins.place(try key(frame), list.items.count)
                    list.items[place] = value
                default: throw broken("an item of no list")
                }
            }
        case .build: return try parts()
        default: throw broken("a target of an unknown kind")
        }
    }

    /// Several names, one of them perhaps with a star.
    private mutating func parts() throws -> (Frame, Value) throws -> Void {
        let starred = try many { (try $0.isStarred(), try $0.target()) }, all = starred.map(\.1), rest = starred.lastIndex { $0.0 }
        return { frame, value in
            let found = try items(value)
            guard let rest else {
                guard found.count == all.count else { throw broken("\(found.count) values for \(all.count) names") }
                for (one, item) in zip(all, found) { try one(frame, item) }
                return
            }
            let behind = all.count - rest - 1
            guard found.count >= all.count - 1 else { throw broken("too few values") }
            for place in 0..<rest { try all[place](frame, found[place]) }
            try all[rest](frame, .list(List(Array(found[rest..<found.count - behind]))))
            for place in 0..<behind { try all[rest + 1 + place](frame, found[found.count - behind + place]) }
        }
    }

    mutating func expression() throws -> Code {
        switch try read.kind(ExpressionKind.self) {
        case .const:
            let value = try program.constant(try read.number())
            return { _ in value }
        case .local:
            let slot = try read.number()
            return { frame in frame.slots[slot] }
        case .outer:
            let depth = try read.number(), slot = try read.number()
            return { frame in
                var at: Frame? = frame
                for _ in 0..<depth { at = at?.outer }
                guard let at else { throw broken("no outer function") }
                return at.slots[slot]
            }
        case .attribute: return try attribute()
        case .index:
            let owner = try expression(), key = try expression()
            return { frame in try RuleBuiltins.item(try owner(frame), try key(frame)) }
        case .slice:
            let owner = try expression(), lower = try expression(), upper = try expression(), step = try expression()
            return { frame in try RuleBuiltins.slice(try owner(frame), try lower(frame), try upper(frame), try step(frame)) }
        case .call: return try call()
        case .method: return try method()
        case .binary:
            let combine = RuleBuiltins.operation(try read.byte()), left = try expression(), right = try expression()
            return { frame in try combine(try left(frame), try right(frame)) }
        case .compare: return try comparison()
        case .and: return try chain(until: false)
        case .or: return try chain(until: true)
        case .not:
            let value = try expression()
            return { frame in .bool(!(try value(frame).isTrue)) }
        case .ifElse:
            let test = try expression(), body = try expression(), other = try expression()
            return { frame in try test(frame).isTrue ? body(frame) : other(frame) }
        case .build: return try build()
        case .buildTable: return try buildTable()
        case .join: return try join()
        case .comprehension: return try comprehension()
        case .closure:
            let template = try RuleTemplate(program, &read)
            try template.skip(&read)
            return { frame in .callable(RuleFunction(template, outer: frame)) }
        case .negative:
            let value = try expression()
            return { frame in
                let found = try value(frame)
                if let whole = found.whole { return .int(-whole) }
                guard let number = found.number else { throw broken("minus \(found.kind)") }
                return .float(-number)
            }
        case .starred: throw broken("a star stands alone")
        }
    }

    private mutating func chain(until wanted: Bool) throws -> Code {
        let all = try many { try $0.expression() }, last = all.count - 1
        return { frame in
            for place in 0..<last {
                let found = try all[place](frame)
                if found.isTrue == wanted { return found }
            }
            return try all[last](frame)
        }
    }

    private mutating func comparison() throws -> Code {
        let left = try expression(), all = try many { (try $0.read.byte(), try $0.expression()) }
        if all.count == 1 {
            let (how, right) = all[0]
            return { frame in .bool(try RuleBuiltins.holds(how, try left(frame), try right(frame))) }
        }
        return { frame in
            var before = try left(frame)
            for (how, right) in all {
                let after = try right(frame)
                guard try RuleBuiltins.holds(how, before, after) else { return .bool(false) }
                before = after
            }
            return .bool(true)
        }
    }

    /// Whether a star stands here; it is passed over.
    private mutating func isStarred() throws -> Bool {
        guard read.place < read.bytes.count, Int(read.bytes[read.place]) == ExpressionKind.starred.rawValue else { return false }
        read.place += 1
        return true
    }

    /// Values, some of them with a star.
    private mutating func values() throws -> RuleArguments { RuleArguments(codes: try many { (try $0.isStarred(), try $0.expression()) }, names: []) }

    private mutating func arguments() throws -> RuleArguments {
        RuleArguments(codes: try values().codes, names: try many { (try $0.read.number(), try $0.expression()) })
    }

    private mutating func build() throws -> Code {
        let kind = try read.byte(), given = try values()
        switch kind {
        case 0: return { frame in .tuple(try given.values(frame)) }
        case 1: return { frame in .list(List(try given.values(frame))) }
        default: return { frame in .set(Table(set: try given.values(frame))) }
        }
    }

    private mutating func buildTable() throws -> Code {
        let all: [(Code?, Code)] = try many { (try $0.isStarred() ? nil : try $0.expression(), try $0.expression()) }
        return { frame in
            let table = Table()
            for (key, value) in all {
                if let key { table.put(try key(frame), try value(frame)) } else if case .dict(let more) = try value(frame) {
                    table.put(all: more)
                } else { throw broken("no table behind two stars") }
            }
            return .dict(table)
        }
    }

    private mutating func join() throws -> Code {
        let all = try many { (try $0.expression(), try $0.read.text().string) }
        return { frame in
            var units: [UInt32] = []
            for (code, format) in all {
                let value = try code(frame)
                if format.isEmpty, case .text(let text) = value { units += text.units } else { units += Text(try RuleBuiltins.written(value, format)).units }
            }
            return .text(Text(units))
        }
    }

    private mutating func comprehension() throws -> Code {
        let kind = try read.byte()
        let all = try many { (source: try $0.expression(), put: try $0.target(), tests: try $0.many { try $0.expression() }) }
        let given = try expression(), second = kind == 2 || kind == 5 ? try expression() : nil
        /// True: enough.
        func walk(_ level: Int, _ frame: Frame, _ take: (Value) throws -> Bool) throws -> Bool {
            if level == all.count { return try take(given(frame)) }
            next: for item in try items(all[level].source(frame)) {
                try all[level].put(frame, item)
                for test in all[level].tests where !(try test(frame).isTrue) { continue next }
                if try walk(level + 1, frame, take) { return true }
            }
            return false
        }
        switch kind {
        case 0, 1:
            return { frame in
                var found: [Value] = []
                _ = try walk(0, frame) { found.append($0); return false }
                return kind == 0 ? .list(List(found)) : .set(Table(set: found))
            }
        case 2:
            guard let second else { throw broken("a table without values") }
            return { frame in
                let table = Table()
                _ = try walk(0, frame) { table.put($0, try second(frame)); return false }
                return .dict(table)
            }
        case 3: return { frame in .bool(try walk(0, frame) { $0.isTrue }) }
        case 4: return { frame in .bool(!(try walk(0, frame) { !$0.isTrue })) }
        default:
            guard let second else { throw broken("next without a default") }
            return { frame in
                var found: Value?
                _ = try walk(0, frame) { found = $0; return true }
                return try found ?? second(frame)
            }
        }
    }

    private mutating func attribute() throws -> Code {
        let owner = try expression(), name = try read.number(), spelled = try program.name(name)
        return { frame in
            switch try owner(frame) {
            case .object(let object):
                if let slot = object.type.slots[name], slot < object.values.count { return object.values[slot] }
                switch object.type.attributes[name] {
                case .property(let function): return try invoke(function, [.object(object)])
                case .constant(let value): return value
                case .method(let function): return .callable(PartialCall(function, [.object(object)]))
                default: throw broken("a \(object.type.name) has no \(spelled)")
                }
            case .match(let match):
                switch spelled {
                case "re": return .pattern(match.pattern)
                case "lastindex": return match.last == 0 ? .none : .int(match.last)
                case "lastgroup": return match.pattern.names.first { $0.value == match.last }.map { .text($0.key) } ?? .none
                default: throw broken("a match has no \(spelled)")
                }
            case .pattern(let pattern) where spelled == "pattern": return .text(pattern.source)
            case let value: return .callable(Builtin(spelled) { given, named in try RuleMethods.call(spelled, value, given, named) })
            }
        }
    }

    private mutating func call() throws -> Code {
        let function = try expression(), given = try arguments()
        return { frame in try invoke(try function(frame), given, frame) }
    }

    private mutating func method() throws -> Code {
        let owner = try expression(), name = try read.number(), spelled = try program.name(name)
        let given = try arguments()
        return { frame in
            let found = try owner(frame)
            guard case .object(let object) = found else { return try RuleMethods.call(spelled, found, try given.values(frame), try given.named(frame)) }
            if let attribute = object.type.attributes[name] {
                switch attribute {
                case .method(let function): return try invoke(function, own: found, given, frame)
                case .free(let function): return try invoke(function, given, frame)
                case .property(let function): return try invoke(try invoke(function, [found]), given, frame)
                default: break
                }
            }
            guard let slot = object.type.slots[name], slot < object.values.count else { throw broken("a \(object.type.name) has no \(spelled)") }
            return try invoke(object.values[slot], given, frame)
        }
    }
}
