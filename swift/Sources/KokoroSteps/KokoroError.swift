/// Everything that can go wrong, each with what a person needs in order to mend it.
public enum KokoroError: Error, Equatable, Sendable {
    /// The text or the phonemes hold nothing that is said.
    case nothingToSay
    /// A phoneme outside the vocabulary: its Unicode scalar, and its place among the phonemes.
    case unknownSymbol(Unicode.Scalar, place: Int)
    /// More phonemes than one call says.
    case tooManyPhonemes(Int, most: Int)
    /// A speed outside `Contract.speeds`.
    case speedOutOfRange(Double)
    /// A duration that is no number, or longer than a trained model can give: the token's place and its frames.
    case brokenDuration(token: Int, frames: Float)
    /// An utterance longer than the longest bucket, in frames (or in tokens, where `unit` says so).
    case utteranceTooLong(Int, most: Int, unit: String)
    /// A tensor of another size than its neighbours need.
    case wrongSize(String, found: Int, wanted: Int)
    /// NaN or infinity, with the tensor's name and the first place.
    case notFinite(String, place: Int)
    /// A voice that the bundle does not hold.
    case unknownVoice(String, known: [String])
    /// A file that is missing, damaged or of another format.
    case badFile(String, reason: String)
    /// Parts that were made from different checkpoints.
    case mixedCheckpoints(String)
    /// What this package does not do, and what would.
    case unsupported(String)
    /// What Core ML or ONNX Runtime said.
    case backend(String)
}

extension KokoroError: CustomStringConvertible {
    /// One line for a person.
    public var description: String {
        switch self {
        case .nothingToSay: "there is nothing to say"
        case .unknownSymbol(let symbol, let place): "U+\(hexadecimal(symbol)) at \(place) is no phoneme of this vocabulary"
        case .tooManyPhonemes(let count, let most): "\(count) phonemes; one call says at most \(most)"
        case .speedOutOfRange(let speed):
            "speed \(speed) is outside \(Contract.speeds.lowerBound) to \(Contract.speeds.upperBound); 1 is the voice's own pace"
        case .brokenDuration(let token, let frames): "token \(token) lasts \(frames) frames: the model or its input is broken"
        case .utteranceTooLong(let count, let most, let unit): "\(count) \(unit); the longest bucket holds \(most)"
        case .wrongSize(let name, let found, let wanted): "\(name) holds \(found) values, not \(wanted)"
        case .notFinite(let name, let place): "\(name) is not finite at \(place)"
        case .unknownVoice(let name, let known): "no voice \(name); the bundle holds \(known.joined(separator: ", "))"
        case .badFile(let file, let reason): "\(file): \(reason)"
        case .mixedCheckpoints(let file): "\(file) was made from another checkpoint than the rest of the bundle"
        case .unsupported(let what): what
        case .backend(let words): words
        }
    }
}

private func hexadecimal(_ symbol: Unicode.Scalar) -> String {
    let digits = String(symbol.value, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
}
