/// Step 5: the encoder's durations become whole frames.
package struct DurationLimits: Equatable, Sendable {
    /// Frames that one token lasts at most, and all together.
    package let tokenFrames: Int, totalFrames: Int

    package init(tokenFrames: Int, totalFrames: Int) {
        (self.tokenFrames, self.totalFrames) = (tokenFrames, totalFrames)
    }

    /// Step `round`: raw [n + 2] in frames, half to even and at least 1.
    ///
    /// Throws `brokenDuration`, or `utteranceTooLong`, after which the chunk is cut and its parts are spoken.
    package func wholeFrames(_ raw: [Float]) throws(KokoroError) -> [Int] {
        var whole: [Int] = [], total = 0
        for (token, value) in raw.enumerated() {
            let frames = max(value.rounded(.toNearestOrEven), 1)
            guard value.isFinite, frames <= Float(tokenFrames) else { throw .brokenDuration(token: token, frames: value) }
            whole.append(Int(frames))
            total += Int(frames)
        }
        guard total <= totalFrames else { throw .utteranceTooLong(total, most: totalFrames, unit: "frames") }
        return whole
    }
}

/// Steps 6 and 7: which token each frame belongs to, and the encoder's columns in that order.
package struct FrameAlignment: Equatable, Sendable {
    /// Step `align`: [F]; token i stands `durations[i]` times in a row.
    package let tokenOfFrame: [Int]

    package init(durations: [Int]) {
        tokenOfFrame = durations.enumerated().flatMap { repeatElement($0.offset, count: $0.element) }
    }

    /// F.
    package var frames: Int { tokenOfFrame.count }

    /// Step `asr`: `text` [1, C, 1, T] to [1, C, F].
    package func asr(text: Tensor) throws(KokoroError) -> Tensor {
        let found = try gathered(text, name: "text", width: frames)
        return try Tensor("asr", shape: [1, text.rows, frames], values: found)
    }

    /// Step `frames`: `hidden` [1, C, 1, T] to [1, C + 1, 1, B]; the last row is 1 on the first F columns, all behind them is 0.
    package func frames(hidden: Tensor, bucket: Int) throws(KokoroError) -> Tensor {
        var found = try gathered(hidden, name: "hidden", width: bucket)
        found += repeatElement(1, count: frames)
        found += repeatElement(0, count: bucket - frames)
        return try Tensor("frames", shape: [1, hidden.rows + 1, 1, bucket], values: found)
    }

    /// Rows of `width`: the columns in the order of the frames, zeros behind.
    private func gathered(_ tensor: Tensor, name: String, width: Int) throws(KokoroError) -> [Float] {
        let tokens = (tokenOfFrame.last ?? -1) + 1
        guard tokens > 0, tokens <= tensor.columns, frames <= width else { throw .wrongSize(name, found: tensor.columns, wanted: tokens) }
        var found = [Float](repeating: 0, count: tensor.rows * width)
        for row in 0..<tensor.rows {
            let from = row * tensor.columns, to = row * width
            for (frame, token) in tokenOfFrame.enumerated() { found[to + frame] = tensor.values[from + token] }
        }
        return found
    }
}
