import Foundation
import KokoroSteps

/// text/us.words of a bundle, as g2p/port/word_table.py writes it, mapped and searched by halves: first words of blocks, then one block.
/// Of a word: a column for each list that has it, `g=phonemes`, or `g:TAG=phonemes` for each part of speech; `g:TAG` is said by letters, `t=`
/// is its class among parts of speech.
final class WordLists {
    private let data: Data, starts: [Int], blockRows: Int, rows: Int, shares: CodeTable, words: CodeTable, readings: CodeTable
    /// Answers, because all lists are asked for a word in turn.
    private var known: [Text: [String: Value]] = [:]

    init(file: URL) throws(KokoroError) {
        let name = file.lastPathComponent
        do { data = try Data(contentsOf: file, options: .alwaysMapped) } catch { throw .badFile(name, reason: "missing from the bundle") }
        guard data.starts(with: "KWRD".utf8), data.uint32(4) == 2 else { throw .badFile(name, reason: "not words of format 2: bundle again") }
        (blockRows, rows) = (max(1, data.uint32(8)), data.uint32(12))
        var place = 20 + 4 * ((rows + blockRows - 1) / blockRows)
        starts = stride(from: 16, to: min(place, data.count), by: 4).map(data.uint32)
        (shares, words, readings) = (CodeTable(data, &place), CodeTable(data, &place), CodeTable(data, &place))
        guard starts.count > 1, starts[0] == place, starts.last == data.count, zip(starts, starts.dropFirst()).allSatisfy(<),
            [shares, words, readings].allSatisfy({ $0.counts.reduce(0, +) == $0.texts.count })
        else { throw .badFile(name, reason: "cut off, or damaged") }
    }

    /// A canonical Huffman code: how many codes have 1, 2, ... 32 bits, and their texts in that order.
    private struct CodeTable {
        let counts: [Int], texts: [[UInt32]]

        init(_ data: Data, _ place: inout Int) {
            let size = data.uint32(place), first = place + 4
            counts = (0..<32).map { data.uint32(first + 4 * $0) }
            let texts = data.dropFirst(first + 128).prefix(max(0, size - 128)).split(separator: 0, omittingEmptySubsequences: false)
            self.texts = texts.map { Text(String(decoding: $0, as: UTF8.self)).units }
            place = first + size
        }
    }

    /// Codes of a block, the first bit of a byte its highest.
    private struct Codes {
        let bytes: [UInt8]
        var bit = 0

        /// nil where the block ends, or is damaged.
        mutating func next(_ table: CodeTable) -> [UInt32]? {
            var code = 0, first = 0, index = 0
            for count in table.counts {
                guard bit < 8 * bytes.count else { return nil }
                code = code << 1 | Int(bytes[bit >> 3] >> UInt8(7 - bit & 7) & 1)
                bit += 1
                if code - first < count { return table.texts[index + code - first] }
                (index, first) = (index + count, (first + count) << 1)
            }
            return nil
        }
    }

    private func codes(of block: Int) -> Codes { Codes(bytes: [UInt8](data[starts[block]..<starts[block + 1]])) }

    /// One of the lists.
    func list(_ name: String) -> HeldTable {
        HeldTable { [self] key in if case .text(let word) = key { columns(word)[name] } else { nil } }
    }

    /// What each list says of exactly this word.
    private func columns(_ word: Text) -> [String: Value] {
        if let found = known[word] { return found }
        var low = 0, high = starts.count - 1, found: [String: Value] = [:]
        while high - low > 1 {
            let middle = (low + high) / 2
            if stands(word.units, before: middle) { high = middle } else { low = middle }
        }
        if let said = said(of: word.units, in: low) { found = Self.parsed(Text(said).string) }
        if known.count == 2000 { known = [:] }
        known[word] = found
        return found
    }

    /// Whether a word stands before the first one of a block, which is written whole.
    private func stands(_ word: [UInt32], before block: Int) -> Bool {
        var codes = codes(of: block), at = 0
        _ = codes.next(shares)
        while let text = codes.next(words) {
            for unit in text {
                if unit == 9 { return false }
                if at == word.count || word[at] != unit { return at == word.count || word[at] < unit }
                at += 1
            }
        }
        return false
    }

    /// What a block says of a word. Each row is made of the one before.
    private func said(of wanted: [UInt32], in block: Int) -> [UInt32]? {
        var codes = codes(of: block), word: [UInt32] = [], said: [UInt32] = []
        func read(_ text: inout [UInt32], _ table: CodeTable, until mark: UInt32) {
            while text.last != mark, let more = codes.next(table) { text += more }
            if text.last == mark { text.removeLast() }
        }
        for _ in 0..<min(blockRows, rows - block * blockRows) {
            guard let digits = codes.next(shares) else { return nil }
            let share = digits.reduce(0) { 10 * $0 + Int($1) - 48 }, kept = min(said.count, 1 + share & 15)
            word.removeLast(max(0, word.count - share >> 4))
            said.removeLast(said.count - kept)
            read(&word, words, until: 9)
            read(&said, readings, until: 10)
            if kept > 0, kept < said.count { said[0] = said.remove(at: kept) }
            if word == wanted { return said }
        }
        return nil
    }

    private static func parsed(_ line: String) -> [String: Value] {
        var found: [String: Value] = [:]
        for column in line.split(separator: "\t") {
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
