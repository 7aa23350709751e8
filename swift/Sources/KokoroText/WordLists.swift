import Foundation
import KokoroSteps

/// text/us.lists.tsv of a bundle, mapped into memory and searched by halves: nothing is read but the lines that a search looks at.
///
/// A line is a word and a column for each list that has it: `g=phonemes`, or `g:TAG=phonemes` for each part of speech, where
/// `g:TAG` alone is said letter by letter.
final class WordLists {
    private let data: Data
    private var last: (key: Text, columns: [String: Value])?

    init(file: URL) throws(KokoroError) {
        do { data = try Data(contentsOf: file, options: .alwaysMapped) } catch { throw .badFile(file.lastPathComponent, reason: "missing from the bundle") }
        guard data.last == UInt8(ascii: "\n") else { throw .badFile(file.lastPathComponent, reason: "empty or cut off") }
    }

    /// One of the lists.
    func list(_ name: String) -> HeldTable { OneList(self, name) }

    private final class OneList: HeldTable {
        private let lists: WordLists, name: String
        init(_ lists: WordLists, _ name: String) { (self.lists, self.name) = (lists, name) }
        override func value(_ key: Value) throws -> Value? {
            guard case .text(let word) = key else { return nil }
            return lists.columns(word)[name]
        }
    }

    /// What each list says of exactly this word. The last answer is kept, because all lists are asked for a word in turn.
    private func columns(_ word: Text) -> [String: Value] {
        if let last, last.key == word { return last.columns }
        let key = Array(word.string.utf8)
        let found = data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) -> [String: Value] in
            var low = 0, high = bytes.count
            while low < high {
                var line = (low + high) / 2
                while line > low, bytes[line - 1] != UInt8(ascii: "\n") { line -= 1 }
                var end = line
                while bytes[end] != UInt8(ascii: "\n") { end += 1 }
                switch order(key, bytes[line..<end]) {
                case 0: return Self.parsed(bytes[(line + key.count + 1)..<end])
                case ..<0: high = line
                default: low = end + 1
                }
            }
            return [:]
        }
        last = (word, found)
        return found
    }

    /// Below 0 where the key stands before the line's word, 0 where it is that word.
    private func order(_ key: [UInt8], _ line: Slice<UnsafeRawBufferPointer>) -> Int {
        var place = line.startIndex
        for byte in key {
            guard place < line.endIndex, line[place] != UInt8(ascii: "\t") else { return 1 }
            if byte != line[place] { return Int(byte) - Int(line[place]) }
            place += 1
        }
        return place < line.endIndex && line[place] == UInt8(ascii: "\t") ? 0 : -1
    }

    private static func parsed(_ line: Slice<UnsafeRawBufferPointer>) -> [String: Value] {
        var found: [String: Value] = [:]
        for column in String(decoding: line, as: UTF8.self).split(separator: "\t") {
            let parts = column.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false), head = parts[0].split(separator: ":", maxSplits: 1)
            let phonemes = parts.count > 1 ? Value.text(Text(String(parts[1]))) : .none, list = String(head[0])
            guard head.count > 1 else {
                found[list] = phonemes
                continue
            }
            let senses = if case .dict(let table)? = found[list] { table } else { Table() }
            senses.put(.text(Text(String(head[1]))), phonemes)
            found[list] = .dict(senses)
        }
        return found
    }
}
