import Foundation
import KokoroSteps

/// text/us.words of a bundle, as pipeline/word_table.py writes it, mapped and searched by halves: first words of blocks, then one block.
/// Of a word: a column for each list that has it, `g=phonemes`, or `g:TAG=phonemes` for each part of speech; `g:TAG` is said by letters, `t=`
/// is its class among parts of speech.
final class WordLists {
    private let data: Data, starts: [Int], codes: [[[UInt32]]]
    /// Answers, because all lists are asked for a word in turn.
    private var known: [Text: [String: Value]] = [:]

    init(file: URL) throws(KokoroError) {
        let name = file.lastPathComponent
        do { data = try Data(contentsOf: file, options: .alwaysMapped) } catch { throw .badFile(name, reason: "missing from the bundle") }
        guard data.starts(with: "KWRD".utf8), data.uint32(4) == 1 else { throw .badFile(name, reason: "not words of format 1: bundle again") }
        var place = 20 + 4 * data.uint32(12), codes: [[[UInt32]]] = []
        starts = stride(from: 16, to: min(place, data.count), by: 4).map(data.uint32)
        for _ in 0..<2 {
            let texts = data.dropFirst(place + 4).prefix(data.uint32(place)).split(separator: 0, omittingEmptySubsequences: false)
            codes.append(texts.map { Text(String(decoding: $0, as: UTF8.self)).units })
            place += 4 + data.uint32(place)
        }
        self.codes = codes
        guard starts.count > 1, starts[0] == place, starts.last == data.count, zip(starts, starts.dropFirst()).allSatisfy(<),
            codes.allSatisfy({ $0.count == 256 })
        else { throw .badFile(name, reason: "cut off, or damaged") }
    }

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
        var at = 0
        for place in starts[block] + 1..<starts[block + 1] {
            for unit in codes[0][Int(data[place])] {
                if unit == 9 { return false }
                if at == word.count || word[at] != unit { return at == word.count || word[at] < unit }
                at += 1
            }
        }
        return false
    }

    /// What a block says of a word. Each row is made of the one before.
    private func said(of wanted: [UInt32], in block: Int) -> [UInt32]? {
        var place = starts[block], word: [UInt32] = [], said: [UInt32] = []
        func read(_ text: inout [UInt32], _ codes: [[UInt32]], until mark: UInt32) {
            while place < starts[block + 1], text.last != mark {
                text += codes[Int(data[place])]
                place += 1
            }
            if text.last == mark { text.removeLast() }
        }
        while place < starts[block + 1] {
            let share = Int(data[place]), kept = min(said.count, 1 + share & 15)
            place += 1
            word.removeLast(max(0, word.count - share >> 4))
            said.removeLast(said.count - kept)
            read(&word, codes[0], until: 9)
            read(&said, codes[1], until: 10)
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
