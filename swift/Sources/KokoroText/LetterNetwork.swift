import Foundation
import KokoroSteps

/// Letters to sounds: the network of g2p/network.py, one word at a time, so that nothing is padded or masked.
///
/// [S, C]: S symbols of a word, a tag before its letters, of C channels.
struct LetterNetwork: Sendable {
    /// Weights [out, in] int8, mapped; scale and bias [out].
    private struct Linear: Sendable { let weight: Data, scale: [Float], bias: [Float] }
    private struct Norm: Sendable { let weight: [Float], bias: [Float] }
    private struct Block: Sendable { let norms: [Norm], query: Linear, key: Linear, value: Linear, out: Linear, taps: Linear, narrow: Linear }
    private let embedding: [Float], blocks: [Block], norm: Norm, answer: Linear, condition: Linear, heads: Int, answers: Set<Int>

    init(_ tables: TextTables) throws(KokoroError) {
        func linear(_ name: String) throws(KokoroError) -> Linear {
            let (weight, scale) = try tables.mapped("network.\(name).weight"), bias = try tables.floats("network.\(name).bias")
            guard !bias.isEmpty, scale.count == bias.count, weight.count % bias.count == 0 else { throw .badFile("text", reason: "\(name) is damaged") }
            return Linear(weight: weight, scale: scale, bias: bias)
        }
        func norm(_ name: String) throws(KokoroError) -> Norm {
            Norm(weight: try tables.floats("network.\(name).weight"), bias: try tables.floats("network.\(name).bias"))
        }
        let rules = tables.rules.network
        var blocks: [Block] = []
        for number in 0..<rules.blocks {
            let name = "blocks.\(number)"
            blocks.append(Block(
                norms: [try norm("\(name).norms.0"), try norm("\(name).norms.1")], query: try linear("\(name).attention.query"),
                key: try linear("\(name).attention.key"), value: try linear("\(name).attention.value"), out: try linear("\(name).attention.out"),
                taps: try linear("\(name).taps"), narrow: try linear("\(name).narrow")))
        }
        embedding = try tables.floats("network.embedding.weight")
        self.blocks = blocks
        self.norm = try norm("norm")
        answer = try linear("answer")
        condition = try linear("condition")
        heads = rules.heads
        answers = Set(rules.answers)
    }

    /// Ids [S] to logits [S, 2 * sounds], the two frames of a letter side by side.
    func logits(_ ids: [Int32]) -> Matrix {
        let width = norm.weight.count
        var x = Matrix(rows: ids.count, columns: width, values: ids.flatMap { embedding[Int($0) * width..<(Int($0) + 1) * width] })
        for (number, block) in blocks.enumerated() {
            add(attended(block, normalized(block.norms[0], x)), to: &x)
            var near = product(block.taps, neighbours(normalized(block.norms[1], x)))
            for place in near.values.indices { near.values[place] = max(near.values[place], 0) }
            add(product(block.narrow, near), to: &x)
            if answers.contains(number + 1) {
                var guess = product(answer, normalized(norm, x))
                for frame in 0..<2 * guess.rows { softmax(&guess.values, from: frame * guess.columns / 2, count: guess.columns / 2) }
                add(product(condition, guess), to: &x)
            }
        }
        return product(answer, normalized(norm, x))
    }

    private func add(_ more: Matrix, to x: inout Matrix) { for place in x.values.indices { x.values[place] += more.values[place] } }

    /// [S, in] to [S, out]. A row of weights becomes floats for all S.
    private func product(_ layer: Linear, _ x: Matrix) -> Matrix {
        let outer = layer.bias.count, inner = min(layer.weight.count / outer, x.columns), rows = x.rows
        var weights = [Float](repeating: 0, count: inner)
        let found = [Float](unsafeUninitializedCapacity: rows * outer) { found, count in
            layer.weight.withUnsafeBytes { (stored: UnsafeRawBufferPointer) in
                weights.withUnsafeMutableBytes { weights in
                    x.values.withUnsafeBytes { values in
                        for out in 0..<outer {
                            for place in 0..<inner { weights.storeBytes(of: Float(Int8(bitPattern: stored[out * inner + place])), toByteOffset: 4 * place, as: Float.self) }
                            for row in 0..<rows { found[row * outer + out] = dot(values, row * inner, weights, inner) * layer.scale[out] + layer.bias[out] }
                        }
                    }
                }
            }
            count = rows * outer
        }
        return Matrix(rows: rows, columns: outer, values: found)
    }

    /// In lanes of sixteen; a rest is added alone.
    private func dot(_ left: UnsafeRawBufferPointer, _ start: Int, _ right: UnsafeMutableRawBufferPointer, _ count: Int) -> Float {
        var lanes = SIMD16<Float>.zero, place = 0, rest: Float = 0
        while place + 16 <= count {
            lanes += left.loadUnaligned(fromByteOffset: 4 * (start + place), as: SIMD16<Float>.self)
                * right.loadUnaligned(fromByteOffset: 4 * place, as: SIMD16<Float>.self)
            place += 16
        }
        while place < count {
            rest += left.loadUnaligned(fromByteOffset: 4 * (start + place), as: Float.self) * right.loadUnaligned(fromByteOffset: 4 * place, as: Float.self)
            place += 1
        }
        return lanes.sum() + rest
    }

    private func normalized(_ norm: Norm, _ x: Matrix) -> Matrix {
        var found = x
        for row in 0..<x.rows {
            let range = row * x.columns..<(row + 1) * x.columns, mean = x.values[range].reduce(0, +) / Float(x.columns)
            let variance = x.values[range].reduce(0) { $0 + ($1 - mean) * ($1 - mean) } / Float(x.columns)
            let deviation = (variance + 1e-5).squareRoot()
            for (column, place) in range.enumerated() { found.values[place] = (x.values[place] - mean) / deviation * norm.weight[column] + norm.bias[column] }
        }
        return found
    }

    /// [S, C] to [S, 3C]: each row between its neighbours, zeros beyond both ends.
    private func neighbours(_ x: Matrix) -> Matrix {
        let edge = [Float](repeating: 0, count: x.columns), padded = edge + x.values + edge
        let values = (0..<x.rows).flatMap { padded[$0 * x.columns..<($0 + 3) * x.columns] }
        return Matrix(rows: x.rows, columns: 3 * x.columns, values: values)
    }

    private func attended(_ block: Block, _ x: Matrix) -> Matrix {
        let query = product(block.query, x), key = product(block.key, x), value = product(block.value, x)
        let width = x.columns / heads, scale = 1 / Float(width).squareRoot()
        var mixed = Matrix(rows: x.rows, columns: x.columns, values: [Float](repeating: 0, count: x.values.count))
        var scores = [Float](repeating: 0, count: x.rows)
        for head in 0..<heads {
            for row in 0..<x.rows {
                let from = row * x.columns + head * width
                for other in 0..<x.rows {
                    var sum: Float = 0
                    for place in 0..<width { sum += query.values[from + place] * key.values[other * x.columns + head * width + place] }
                    scores[other] = sum * scale
                }
                softmax(&scores, from: 0, count: x.rows)
                for other in 0..<x.rows {
                    for place in 0..<width { mixed.values[from + place] += scores[other] * value.values[other * x.columns + head * width + place] }
                }
            }
        }
        return product(block.out, mixed)
    }

    private func softmax(_ values: inout [Float], from start: Int, count: Int) {
        var top = -Float.infinity, total: Float = 0
        for place in start..<start + count { top = max(top, values[place]) }
        for place in start..<start + count {
            values[place] = expf(values[place] - top)
            total += values[place]
        }
        for place in start..<start + count { values[place] /= total }
    }
}
