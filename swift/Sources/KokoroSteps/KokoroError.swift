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
    /// A file or folder that the system does not write, and what it says.
    case disk(String, reason: String)
    /// A file of a bundle that did not come, and why.
    case network(String, reason: String)
    /// What the system says of its audio.
    case audio(String)
}

extension KokoroError {
    /// What an app can do.
    public var recovery: String {
        switch self {
        case .nothingToSay: "Leave this text out."
        case .unknownSymbol, .tooManyPhonemes, .speedOutOfRange: "Mend the argument; it comes from the app, not from its user."
        case .utteranceTooLong: "Give a bundle with longer buckets, or a faster speed."
        case .brokenDuration, .wrongSize, .notFinite: "Load with other compute units; if it comes again, take the ONNX route and report the bundle's hash."
        case .unknownVoice: "Choose one of the bundle's voices, or bundle this one."
        case .badFile, .mixedCheckpoints: "Fetch or copy the bundle again."
        case .unsupported: "Make the bundle that the line names, or leave out what it says."
        case .backend: "Load with other compute units, or take the ONNX route."
        case .disk: "Free some space, or choose a folder that may be written; then try again."
        case .network: "Try again: what has come is kept."
        case .audio: "Try again when the app is in front; or play the samples of `speak` yourself."
        }
    }
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
        case .disk(let file, let reason): "\(file) cannot be written: \(reason)"
        case .network(let file, let reason): "\(file) did not come: \(reason)"
        case .audio(let words): "audio: \(words)"
        }
    }
}

private func hexadecimal(_ symbol: Unicode.Scalar) -> String {
    let digits = String(symbol.value, radix: 16, uppercase: true)
    return String(repeating: "0", count: max(0, 4 - digits.count)) + digits
}
