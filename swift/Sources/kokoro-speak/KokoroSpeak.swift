import Foundation
import Kokoro
import KokoroONNX
import KokoroSteps
import KokoroText

/// kokoro-speak BUNDLE TEXT|- --voice NAME [--phonemes yes] [-o speech.wav] [--speed 1] [--seed 0] [--library libonnxruntime.so.1]
///
/// kokoro-speak BUNDLE --read lines.jsonl --language us [-o read.jsonl]: each line, a JSON string, to what is said in each call; of a bundle only its text is needed.
///
/// Prints a line for each piece (first sample, samples, frames of each token, phonemes), and one JSON object as the last line. Exit 0: written; 2: bad input, told in one line on stderr.
@main struct KokoroSpeak {
    static func main() async {
        OnnxLibrary.returnMemoryToTheSystem()
        do {
            let arguments = try Arguments(Array(CommandLine.arguments.dropFirst()))
            if let lines = arguments.lines { try read(lines, arguments) } else { try await speak(arguments) }
        } catch {
            complain(error)
            exit(2)
        }
    }

    private static func complain(_ error: any Error, of text: String = "") {
        FileHandle.standardError.write(Data("kokoro-speak: \(text)\((error as? KokoroError)?.description ?? "\(error)")\n".utf8))
    }

    private static func speak(_ arguments: Arguments) async throws {
        let clock = ContinuousClock(), started = clock.now
        let kokoro = try await open(arguments), voice = Voice(arguments.voice ?? kokoro.voices.first?.name ?? "")
        for advisory in kokoro.bundle.advisories { complain(KokoroError.unsupported("\(advisory.says) (\(advisory.sources.joined(separator: ", ")))")) }
        var wave = try WaveFile(URL(fileURLWithPath: arguments.out)), pieces = 0, gaps = 0, first: Duration?, memory = 0.0
        defer { wave.discard() }
        let sequence = arguments.arePhonemes
            ? kokoro.speak(phonemes: arguments.text, voice: voice, speed: arguments.speed, seed: arguments.seed)
            : arguments.text == "-" ? kokoro.speak(input(), voice: voice, speed: arguments.speed, seed: arguments.seed)
            : kokoro.speak(arguments.text, voice: voice, speed: arguments.speed, seed: arguments.seed)
        for try await audio in sequence {
            let elapsed = clock.now - started, begun = first ?? elapsed
            if elapsed - begun > .seconds(Double(wave.samples) / Double(Contract.sampleRateHz)) { gaps += 1 }  // a listener waited
            if first == nil { (first, memory) = (elapsed, residentMegabytes()) }
            try wave.append(audio.samples)
            pieces += 1
            print(audio.startSample, audio.samples.count, audio.durations.map(String.init).joined(separator: ","), audio.phonemes)
        }
        try wave.close()
        let spent = clock.now - started, seconds = Double(wave.samples) / Double(Contract.sampleRateHz)
        print("{\"out\": \"\(arguments.out)\", \"pieces\": \(pieces), \"seconds_of_audio\": \(seconds), "
            + "\"seconds_spent\": \(spent / .seconds(1)), \"first_audio_s\": \((first ?? spent) / .seconds(1)), \"gaps\": \(gaps), "
            + "\"memory_mb\": \(residentMegabytes()), \"memory_at_first_mb\": \(memory)}")
    }

    /// Standard input, while it is written.
    private static func input() -> LiveText {
        let live = LiveText()
        Thread.detachNewThread {
            var bytes = Data(), more = Data()
            repeat {
                more = FileHandle.standardInput.availableData
                bytes += more
                // the last character may be in two pieces
                let part = bytes.suffix(more.isEmpty ? 0 : 3).lastIndex { $0 >= 0xC0 }
                let whole = part.flatMap { bytes.endIndex - $0 < (bytes[$0] < 0xE0 ? 2 : bytes[$0] < 0xF0 ? 3 : 4) ? $0 : nil } ?? bytes.endIndex
                guard let text = String(data: bytes[..<whole], encoding: .utf8) else {
                    return live.finish(throwing: .unsupported("standard input is not UTF-8"))
                }
                if !text.isEmpty { live.write(text) }
                bytes = Data(bytes[whole...])
            } while !more.isEmpty
            live.finish()
        }
        return live
    }

    /// What is said of a text in one call, as text/us.chunks.json of a bundle has it.
    private struct Said: Encodable {
        let phonemes: String, ending: String, rate: Double, pause_before_s: Double?, voice: String?, opening: String?
    }

    /// A line without an answer is null, and told. Times are the processor's, of this process from its first instruction on.
    private static func read(_ lines: String, _ arguments: Arguments) throws {
        let reader = try RuleReader(bundle: URL(fileURLWithPath: arguments.bundle), language: arguments.language)
        var first = RuleReader.Place("Ready.")
        _ = try reader.next(&first)
        let start = processorSeconds(), texts = try String(contentsOfFile: lines, encoding: .utf8).split(separator: "\n").map { line in
            try JSONDecoder().decode(String.self, from: Data(line.utf8))
        }
        var words = 0, out: [[Said]?] = []
        let begun = processorSeconds()
        for text in texts {
            words += text.utf8.split { $0 < 33 }.count
            do { out.append(try said(text, reader)) } catch {
                complain(error, of: "\(text.prefix(60)): ")
                out.append(nil)
            }
        }
        let spent = processorSeconds() - begun, memory = residentMegabytes()
        let written = try out.map { String(decoding: try JSONEncoder().encode($0), as: UTF8.self) + "\n" }.joined()
        try written.write(toFile: arguments.out, atomically: true, encoding: .utf8)
        print("{\"out\": \"\(arguments.out)\", \"lines\": \(out.count), \"failed\": \(out.count { $0 == nil }), \"words\": \(words), \"start_s\": \(start), "
            + "\"words_a_second\": \(Double(words) / spent), \"memory_mb\": \(memory)}")
    }

    private static func said(_ text: String, _ reader: RuleReader) throws -> [Said] {
        var place = RuleReader.Place(text), found: [Said] = []
        while let parts = try reader.next(&place) {
            for chunk in try parts.flatMap({ try $0.cut(longest: Contract.comfortablePhonemes) }) {
                let phonemes = String(String.UnicodeScalarView(chunk.phonemes))
                found.append(Said(phonemes: phonemes, ending: chunk.ending.rawValue, rate: chunk.rate, pause_before_s: chunk.pauseBefore,
                                  voice: chunk.voice.isEmpty ? nil : chunk.voice, opening: chunk.opening?.rawValue))
            }
        }
        return found
    }

    /// POSIX counts them in millionths.
    private static func processorSeconds() -> Double { Double(clock()) / 1e6 }

    /// Of this process; 0 where the system does not say.
    private static func residentMegabytes() -> Double {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") } ?? ""
        return (Double(line.split(separator: " ").dropFirst().first.map(String.init) ?? line.filter(\.isNumber)) ?? 0) / 1024
    }

    private static func open(_ arguments: Arguments) async throws -> Kokoro {
        let folder = URL(fileURLWithPath: arguments.bundle)
        if try SpeechBundle(at: folder).isOnnx { return try await Kokoro(bundle: folder, onnx: OnnxLibrary(path: arguments.library), threads: 1) }
        #if canImport(CoreML)
        return try await Kokoro(bundle: folder)
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
