import Foundation
import Kokoro
import KokoroONNX
import KokoroSteps
import KokoroText

/// kokoro-speak BUNDLE TEXT --voice NAME [--phonemes yes] [-o speech.wav] [--speed 1] [--seed 0] [--library libonnxruntime.so.1]
///
/// kokoro-speak BUNDLE --read lines.jsonl --language us [-o phonemes.jsonl]: each line, a JSON string, to phonemes; no bundle's packages needed.
///
/// Prints a line for each piece (first sample, samples, frames of each token, phonemes), and one JSON object as the last line. Exit 0: written; 2: bad input, told in one line on stderr.
@main struct KokoroSpeak {
    static func main() async {
        OnnxLibrary.returnMemoryToTheSystem()
        do {
            let arguments = try Arguments(Array(CommandLine.arguments.dropFirst()))
            if let lines = arguments.lines { try read(lines, arguments) } else { try await speak(arguments) }
        } catch {
            FileHandle.standardError.write(Data("kokoro-speak: \((error as? KokoroError)?.description ?? "\(error)")\n".utf8))
            exit(2)
        }
    }

    private static func speak(_ arguments: Arguments) async throws {
        let clock = ContinuousClock(), started = clock.now
        let bundle = try SpeechBundle(at: URL(fileURLWithPath: arguments.bundle))
        let speaker = try Speaker(bundle: bundle, backend: try await backend(bundle, arguments))
        var wave = try WaveFile(URL(fileURLWithPath: arguments.out)), pieces = 0, gaps = 0, first: Duration?, memory = 0.0
        do {
            let voice = arguments.voice ?? bundle.voices.first ?? ""
            let sequence = arguments.arePhonemes
                ? speaker.speak(phonemes: arguments.text, voice: voice, speed: arguments.speed, seed: arguments.seed)
                : speaker.speak(arguments.text, voice: voice, speed: arguments.speed, seed: arguments.seed)
            for try await audio in sequence {
                let elapsed = clock.now - started, begun = first ?? elapsed
                if elapsed - begun > .seconds(Double(wave.samples) / Double(Contract.sampleRateHz)) { gaps += 1 }  // a listener waited
                if first == nil { (first, memory) = (elapsed, residentMegabytes()) }
                try wave.append(audio.samples)
                pieces += 1
                print(audio.startSample, audio.samples.count, audio.durations.map(String.init).joined(separator: ","), audio.phonemes)
            }
            try wave.close()
        } catch {
            wave.discard()
            throw error
        }
        let spent = clock.now - started, seconds = Double(wave.samples) / Double(Contract.sampleRateHz)
        print("{\"out\": \"\(arguments.out)\", \"pieces\": \(pieces), \"seconds_of_audio\": \(seconds), "
            + "\"seconds_spent\": \(spent / .seconds(1)), \"first_audio_s\": \((first ?? spent) / .seconds(1)), \"gaps\": \(gaps), "
            + "\"memory_mb\": \(residentMegabytes()), \"memory_at_first_mb\": \(memory)}")
    }

    /// A line without an answer is null, and told.
    private static func read(_ lines: String, _ arguments: Arguments) throws {
        let clock = ContinuousClock(), started = clock.now
        let reader = try RuleReader(bundle: URL(fileURLWithPath: arguments.bundle), language: arguments.language)
        _ = try reader.phonemes(of: "Ready.")
        let ready = clock.now - started
        var words = 0, failed = 0, out: [String] = []
        for line in try String(contentsOfFile: lines, encoding: .utf8).split(separator: "\n") {
            let text = try JSONDecoder().decode(String.self, from: Data(line.utf8))
            words += text.split(whereSeparator: \.isWhitespace).count
            do { out.append(String(decoding: try JSONEncoder().encode(reader.phonemes(of: text)), as: UTF8.self)) } catch {
                FileHandle.standardError.write(Data("kokoro-speak: \(text.prefix(60)): \((error as? KokoroError)?.description ?? "\(error)")\n".utf8))
                failed += 1
                out.append("null")
            }
        }
        let spent = clock.now - started - ready
        try (out.joined(separator: "\n") + "\n").write(toFile: arguments.out, atomically: true, encoding: .utf8)
        print("{\"out\": \"\(arguments.out)\", \"lines\": \(out.count), \"failed\": \(failed), \"words\": \(words), "
            + "\"start_s\": \(ready / .seconds(1)), \"words_a_second\": \(Double(words) / (spent / .seconds(1))), \"memory_mb\": \(residentMegabytes())}")
    }

    /// Of this process; 0 where the system does not say.
    private static func residentMegabytes() -> Double {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        return (Double(line.split(separator: " ").dropFirst().first.map(String.init) ?? line.filter(\.isNumber)) ?? 0) / 1024
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
    var bundle = "", text = "", arePhonemes = false, voice: String?, out = "speech.wav", speed: Double = 1, seed = 0, library: String?, lines: String?, language = "us"

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
        if lines != nil, plain.count == 1 { plain.append("") }
        guard plain.count == 2 else { throw .unsupported("give a bundle and a text: kokoro-speak BUNDLE TEXT --voice NAME -o speech.wav") }
        (bundle, text) = (plain[0], plain[1])
    }

    private mutating func set(_ flag: String, _ value: String) throws(KokoroError) {
        switch flag {
        case "--voice": voice = value
        case "-o", "--out": out = value
        case "--library": library = value
        case "--read": lines = value
        case "--language": language = value
        case "--phonemes": arePhonemes = value == "yes"
        case "--speed": speed = try number(flag, value, Double.init)
        case "--seed": seed = try number(flag, value) { Int($0) }
        default: throw .unsupported("unknown flag \(flag)")
        }
    }

    private func number<Value>(_ flag: String, _ value: String, _ read: (String) -> Value?) throws(KokoroError) -> Value {
        guard let found = read(value) else { throw .unsupported("\(flag) \(value) is no number") }
        return found
    }
}
