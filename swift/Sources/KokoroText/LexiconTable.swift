import Foundation
import KokoroSteps

/// lexicon/us.tsv of a bundle, mapped into memory and searched by halves: nothing is read but the lines that a search looks at.
struct LexiconTable: Sendable {
    /// What the table says of a word: the list it is from, and its phonemes by part of speech, "" where the sentence does not decide.
    struct Entry: Equatable, Sendable {
        let list: String
        /// In the order of the line; phonemes "" of a named sense: said letter by letter.
        let senses: [(tag: String, phonemes: String)]
        /// The first, which is the default.
        var phonemes: String { senses.first?.phonemes ?? "" }

        static func == (one: Entry, other: Entry) -> Bool { one.list == other.list && one.senses.elementsEqual(other.senses) { $0 == $1 } }
    }

    private let data: Data, start: Int

    init(file: URL) throws(KokoroError) {
        let found: Data
        do { found = try Data(contentsOf: file, options: .alwaysMapped) } catch { throw .badFile(file.lastPathComponent, reason: "missing from the bundle") }
        var place = 0
        while place < found.count, found[place] == UInt8(ascii: "#") { place = (found[place...].firstIndex(of: UInt8(ascii: "\n")) ?? found.count - 1) + 1 }
        guard found.last == UInt8(ascii: "\n"), place < found.count else { throw .badFile(file.lastPathComponent, reason: "empty or cut off") }
        data = found
        start = place
    }

    /// The line of exactly this word.
    func entry(_ word: String) -> Entry? {
        let key = Array(word.utf8)
        return data.withUnsafeBytes { (bytes: UnsafeRawBufferPointer) -> Entry? in
            var low = start, high = bytes.count
            while low < high {
                var line = (low + high) / 2
                while line > low, bytes[line - 1] != UInt8(ascii: "\n") { line -= 1 }
                var end = line
                while bytes[end] != UInt8(ascii: "\n") { end += 1 }
                switch order(key, bytes[line..<end]) {
                case 0: return parsed(bytes[(line + key.count + 1)..<end])
                case ..<0: high = line
                default: low = end + 1
                }
            }
            return nil
        }
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

    private func parsed(_ line: Slice<UnsafeRawBufferPointer>) -> Entry {
        let columns = String(decoding: line, as: UTF8.self).split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
        let senses = columns.dropFirst().map { column -> (tag: String, phonemes: String) in
            guard let equals = column.firstIndex(of: "=") else { return ("", column) }
            return (String(column[..<equals]), String(column[column.index(after: equals)...]))
        }
        return Entry(list: columns.first ?? "", senses: senses)
    }
}
