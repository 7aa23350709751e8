import Foundation
import Kokoro
import KokoroONNX
import KokoroSteps

/// kokoro-speak BUNDLE TEXT --voice NAME [--phonemes yes] [-o speech.wav] [--speed 1] [--seed 0] [--library libonnxruntime.so.1]
///
/// Prints a line for each piece, and one JSON object as the last line. Exit 0: written; 2: bad input, told in one line on stderr.
@main struct KokoroSpeak {
    static func main() async {
        do {
            try await speak(Arguments(Array(CommandLine.arguments.dropFirst())))
        } catch {
            FileHandle.standardError.write(Data("kokoro-speak: \((error as? KokoroError)?.description ?? "\(error)")\n".utf8))
            exit(2)
        }
    }

    private static func speak(_ arguments: Arguments) async throws {
        let clock = ContinuousClock(), started = clock.now
        let bundle = try SpeechBundle(at: URL(fileURLWithPath: arguments.bundle))
        let speaker = try Speaker(bundle: bundle, backend: try await backend(bundle, arguments))
        var wave = try WaveFile(URL(fileURLWithPath: arguments.out)), pieces = 0, first: Duration?
        do {
            let voice = arguments.voice ?? bundle.voices.first ?? ""
            let sequence = arguments.arePhonemes
                ? speaker.speak(phonemes: arguments.text, voice: voice, speed: arguments.speed, seed: arguments.seed)
                : speaker.speak(arguments.text, voice: voice, speed: arguments.speed, seed: arguments.seed)
            for try await audio in sequence {
                first = first ?? clock.now - started
                try wave.append(audio.samples)
                pieces += 1
                print(audio.startSample, audio.samples.count, audio.phonemes)
            }
            try wave.close()
        } catch {
            wave.discard()
            throw error
        }
        let spent = clock.now - started, seconds = Double(wave.samples) / Double(Contract.sampleRateHz)
        print("{\"out\": \"\(arguments.out)\", \"pieces\": \(pieces), \"seconds_of_audio\": \(seconds), "
            + "\"seconds_spent\": \(spent / .seconds(1)), \"first_audio_s\": \((first ?? spent) / .seconds(1))}")
    }

    private static func backend(_ bundle: SpeechBundle, _ arguments: Arguments) async throws -> any SpeechBackend {
        if bundle.isOnnx { return try OnnxBackend(bundle: bundle, library: OnnxLibrary(path: arguments.library)) }
        #if canImport(CoreML)
        return try await CoreMLBackend(bundle: bundle)
        #else
        throw KokoroError.unsupported("no Core ML on this system: kokoro-ane bundle --runtime onnx")
        #endif
    }
}

/// The command line.
struct Arguments {
    var bundle = "", text = "", arePhonemes = false, voice: String?, out = "speech.wav", speed: Float = 1, seed = 0, library: String?

    init(_ words: [String]) throws(KokoroError) {
        var plain: [String] = [], rest = words[...]
        while let word = rest.popFirst() {
            guard word.hasPrefix("-"), word.count > 1 else {
                plain.append(word)
                continue
            }
            guard let value = rest.popFirst() else { throw .unsupported("\(word) needs a value") }
            try set(word, value)
        }
        guard plain.count == 2 else { throw .unsupported("give a bundle and a text: kokoro-speak BUNDLE TEXT --voice NAME -o speech.wav") }
        (bundle, text) = (plain[0], plain[1])
    }

    private mutating func set(_ flag: String, _ value: String) throws(KokoroError) {
        switch flag {
        case "--voice": voice = value
        case "-o", "--out": out = value
        case "--library": library = value
        case "--phonemes": arePhonemes = value == "yes"
        case "--speed": speed = try number(flag, value, Float.init)
        case "--seed": seed = try number(flag, value) { Int($0) }
        default: throw .unsupported("unknown flag \(flag)")
        }
    }

    private func number<Value>(_ flag: String, _ value: String, _ read: (String) -> Value?) throws(KokoroError) -> Value {
        guard let found = read(value) else { throw .unsupported("\(flag) \(value) is no number") }
        return found
    }
}
