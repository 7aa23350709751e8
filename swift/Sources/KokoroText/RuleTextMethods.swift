import Foundation
import KokoroSteps

/// What can be asked of a text. Kinds of characters are those of the Python that wrote the rules.
enum RuleTextMethods {
    static func call(_ name: String, _ text: Text, _ given: [Value]) throws -> Value {
        switch name {
        case "lower": return .text(lower(text))
        case "upper": return .text(Text(mapped(text) { $0.properties.uppercaseMapping }))
        case "casefold": return .text(Text(lower(text).units.flatMap { $0 == 0xDF ? [115, 115] : $0 == 0x17F ? [115] : [$0] }))
        case "capitalize": return .text(Text(mapped(Text(text.units.prefix(1))) { $0.properties.titlecaseMapping } + lower(Text(text.units.dropFirst())).units))
        case "isascii": return .bool(text.units.allSatisfy { $0 < 128 })
        case "isalnum": return all(text, isAlphanumeric)
        case "isalpha": return all(text, isAlpha)
        case "isdigit": return all(text, isDigit)
        case "isdecimal": return all(text, isDecimal)
        case "isspace": return all(text, isSpace)
        case "isupper": return cased(text, isUpper, not: isLower)
        case "islower": return cased(text, isLower, not: isUpper)
        case "strip", "lstrip", "rstrip": return .text(stripped(text, try given.first.flatMap(units), left: name != "rstrip", right: name != "lstrip"))
        case "split": return .list(List(try split(text, given)))
        case "join": return .text(joined(try items(RuleMethods.first(given, name)), text))
        case "startswith", "endswith": return .bool(try affix(text, given, atEnd: name == "endswith"))
        case "removeprefix":
            let part = try argument(given, 0)
            return .text(text.units.starts(with: part.units) ? Text(text.units.dropFirst(part.count)) : text)
        case "replace": return .text(replaced(text, try argument(given, 0), try argument(given, 1), most: given.count > 2 ? given[2].whole ?? -1 : -1))
        case "find", "index":
            guard let place = find(try argument(given, 0), in: text, range(text, given)) else {
                if name == "index" { throw broken("not in the text") }
                return .int(-1)
            }
            return .int(place)
        case "count": return .int(places(try argument(given, 0), text).count)
        case "partition", "rpartition":
            let part = try argument(given, 0), found = places(part, text), isRight = name == "rpartition"
            guard let place = isRight ? found.last : found.first else { return .tuple(isRight ? [.empty, .empty, .text(text)] : [.text(text), .empty, .empty]) }
            return .tuple([.text(Text(text.units[..<place])), .text(part), .text(Text(text.units[(place + part.count)...]))])
        case "translate": return .text(try translated(text, RuleMethods.first(given, name)))
        case "encode": return .text(text)
        default: throw broken("a text has no \(name)")
        }
    }

    private static func argument(_ given: [Value], _ place: Int) throws -> Text {
        guard place < given.count, case .text(let text) = given[place] else { throw broken("no text is given") }
        return text
    }

    private static func units(_ value: Value) throws -> [UInt32]? { if case .text(let text) = value { text.units } else { nil } }

    private static func range(_ text: Text, _ given: [Value]) -> Range<Int> {
        func bound(_ place: Int, _ preset: Int) -> Int {
            guard place < given.count, let number = given[place].whole else { return preset }
            return min(max(number < 0 ? number + text.count : number, 0), text.count)
        }
        let from = bound(1, 0)
        return from..<max(from, bound(2, text.count))
    }

    private static func isAlphanumeric(_ unit: UInt32) -> Bool { scalar(unit).map { $0.isLetter || $0.properties.numericType != nil } ?? false }
    private static func isAlpha(_ unit: UInt32) -> Bool { scalar(unit)?.isLetter ?? false }
    private static func isDecimal(_ unit: UInt32) -> Bool { scalar(unit)?.properties.numericType == .decimal }
    private static func isDigit(_ unit: UInt32) -> Bool { isDecimal(unit) || scalar(unit)?.properties.numericType == .digit }
    private static func scalar(_ unit: UInt32) -> Unicode.Scalar? { Unicode.Scalar(unit) }

    /// White space and the four separators of information.
    static func isSpace(_ unit: UInt32) -> Bool {
        if unit < 128 { return unit == 32 || (9...13).contains(unit) || (28...31).contains(unit) }
        return scalar(unit)?.properties.isWhitespace ?? false
    }

    private static func isUpper(_ unit: UInt32) -> Bool { unit < 128 ? (65...90).contains(unit) : scalar(unit)?.properties.isUppercase ?? false }
    private static func isLower(_ unit: UInt32) -> Bool { unit < 128 ? (97...122).contains(unit) : scalar(unit)?.properties.isLowercase ?? false }
    private static func all(_ text: Text, _ holds: (UInt32) -> Bool) -> Value { .bool(!text.units.isEmpty && text.units.allSatisfy(holds)) }

    private static func cased(_ text: Text, _ holds: (UInt32) -> Bool, not other: (UInt32) -> Bool) -> Value {
        .bool(text.units.contains(where: holds) && !text.units.contains(where: other))
    }

    static func lower(_ text: Text) -> Text {
        if text.units.allSatisfy({ $0 < 128 }) { return Text(text.units.map { (65...90).contains($0) ? $0 + 32 : $0 }) }
        return Text(mapped(text) { $0.properties.lowercaseMapping })
    }

    private static func mapped(_ text: Text, _ change: (Unicode.Scalar) -> String) -> [UInt32] {
        text.units.flatMap { unit in scalar(unit).map { change($0).unicodeScalars.map(\.value) } ?? [unit] }
    }

    static func normalized(_ given: [Value]) throws -> Text {
        let form = try argument(given, 0).string, text = try argument(given, 1)
        if text.units.allSatisfy({ $0 < 128 }) { return text }
        return switch form {
        case "NFC": Text(text.string.precomposedStringWithCanonicalMapping)
        case "NFD": Text(text.string.decomposedStringWithCanonicalMapping)
        case "NFKC": Text(text.string.precomposedStringWithCompatibilityMapping)
        case "NFKD": Text(text.string.decomposedStringWithCompatibilityMapping)
        default: throw broken("the form \(form)")
        }
    }

    static func category(_ scalar: Unicode.Scalar) -> String { categories[scalar.properties.generalCategory] ?? "So" }
    private static let categories: [Unicode.GeneralCategory: String] = [
        .uppercaseLetter: "Lu", .lowercaseLetter: "Ll", .titlecaseLetter: "Lt", .modifierLetter: "Lm", .otherLetter: "Lo", .nonspacingMark: "Mn",
        .spacingMark: "Mc", .enclosingMark: "Me", .decimalNumber: "Nd", .letterNumber: "Nl", .otherNumber: "No", .control: "Cc", .format: "Cf",
        .surrogate: "Cs", .privateUse: "Co", .unassigned: "Cn",
    ]

    /// As `int` reads it.
    static func integer(_ value: Value, base: Int) throws -> Int {
        if let whole = value.whole { return whole }
        if case .float(let number) = value { return Int(number) }
        guard case .text(let text) = value else { throw broken("\(value.kind) as a whole number") }
        let digits = text.units.map { $0 > 127 ? scalar($0)?.properties.numericValue.map { "\(Int($0))" } ?? "?" : Text.single($0).string }
        let plain = digits.joined().trimmingCharacters(in: .whitespaces)
        if let found = Int(plain, radix: base) { return found }
        // Beyond 64 bits the rules ask for its size and its last digits.
        guard plain.count > 18, base == 10, let last = Int(plain.suffix(18)), last >= 0 else { throw broken("\"\(plain)\" as a whole number") }
        return 1_000_000_000_000_000_000 + last
    }

    private static func stands(_ part: Text, _ text: Text, _ place: Int) -> Bool {
        guard place >= 0, place + part.count <= text.count else { return false }
        for offset in 0..<part.count where part.units[offset] != text.units[place + offset] { return false }
        return true
    }

    static func find(_ part: Text, in text: Text, _ within: Range<Int>) -> Int? {
        guard part.count <= within.count else { return nil }
        return (within.lowerBound...within.upperBound - part.count).first { stands(part, text, $0) }
    }

    /// Where `part` stands, without overlaps.
    private static func places(_ part: Text, _ text: Text) -> [Int] {
        var found: [Int] = [], at = 0
        while part.count > 0, let place = find(part, in: text, at..<text.count) {
            found.append(place)
            at = place + part.count
        }
        return found
    }

    private static func replaced(_ text: Text, _ old: Text, _ new: Text, most: Int) -> Text {
        var units: [UInt32] = [], at = 0
        for (index, place) in places(old, text).enumerated() where most < 0 || index < most {
            units += text.units[at..<place] + new.units
            at = place + old.count
        }
        return at == 0 && units.isEmpty ? text : Text(units + text.units[at...])
    }

    private static func stripped(_ text: Text, _ set: [UInt32]?, left: Bool, right: Bool) -> Text {
        func isOff(_ unit: UInt32) -> Bool { set?.contains(unit) ?? isSpace(unit) }
        var from = 0, to = text.count
        while left, from < to, isOff(text.units[from]) { from += 1 }
        while right, to > from, isOff(text.units[to - 1]) { to -= 1 }
        return Text(text.units[from..<to])
    }

    private static func split(_ text: Text, _ given: [Value]) throws -> [Value] {
        let most = given.count > 1 ? given[1].whole ?? -1 : -1
        var parts: [Value] = [], at = 0
        if case .text(let mark)? = given.first {
            for place in places(mark, text) where most < 0 || parts.count < most {
                parts.append(.text(Text(text.units[at..<place])))
                at = place + mark.count
            }
            return parts + [.text(Text(text.units[at...]))]
        }
        while true {
            while at < text.count, isSpace(text.units[at]) { at += 1 }
            guard at < text.count else { return parts }
            if most >= 0, parts.count == most { return parts + [.text(stripped(Text(text.units[at...]), nil, left: false, right: true))] }
            let start = at
            while at < text.count, !isSpace(text.units[at]) { at += 1 }
            parts.append(.text(Text(text.units[start..<at])))
        }
    }

    private static func joined(_ parts: [Value], _ mark: Text) -> Text {
        var units: [UInt32] = []
        for (index, part) in parts.enumerated() {
            if index > 0 { units += mark.units }
            if case .text(let text) = part { units += text.units }
        }
        return Text(units)
    }

    private static func affix(_ text: Text, _ given: [Value], atEnd: Bool) throws -> Bool {
        if case .tuple(let ways)? = given.first { return try ways.contains { try affix(text, [$0] + given.dropFirst(), atEnd: atEnd) } }
        let part = try argument(given, 0), within = range(text, given)
        guard part.count <= within.count else { return false }
        return stands(part, text, atEnd ? within.upperBound - part.count : within.lowerBound)
    }

    private static func translated(_ text: Text, _ table: Value) throws -> Text {
        guard case .dict(let changes) = table else { throw broken("translate by \(table.kind)") }
        var units: [UInt32] = []
        for unit in text.units {
            switch changes.value(.int(Int(unit))) {
            case nil: units.append(unit)
            case .text(let new)?: units += new.units
            case let new?: if let code = new.whole { units.append(UInt32(code)) }
            }
        }
        return Text(units)
    }
}
