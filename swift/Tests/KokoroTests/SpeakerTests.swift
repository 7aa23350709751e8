import Foundation
import Kokoro
import KokoroSteps
import Testing

/// The speaker on networks without weights: order, times, cancellation, many at once, and bad input.
@Suite struct SpeakerTests {
    private func speaker(_ backend: ToneBackend = ToneBackend()) throws -> Speaker { try Speaker(bundle: TestBundles.packages(), backend: backend) }

    private func spoken(_ sequence: SpeechSequence) async throws -> [SpokenAudio] {
        var found: [SpokenAudio] = []
        for try await audio in sequence { found.append(audio) }
        return found
    }

    @Test func piecesFollowOneAnotherWithTheirPausesAndTimes() async throws {
        let found = try await spoken(speaker().speak(phonemes: "hˈI, ðˈɛɹ.\n\nwˌi “hˈɪɹ.”", voice: "rms"))
        #expect(found.map(\.phonemes) == ["hˈI, ðˈɛɹ.", "wˌi “hˈɪɹ.”"] && found.map(\.silence) == [0, 12000])
        #expect(found[1].startSample == found[0].samples.count && found[1].samples.prefix(12000).allSatisfy { $0 == 0 })
        #expect(found[0].words.map(\.text) == ["hˈI", ",", "ðˈɛɹ", "."])
        #expect(found[0].durations.count == found[0].phonemes.unicodeScalars.count + 2)
        #expect(found[0].words[0].seconds == 0..<0.2 && found[0].words[0].place == 0..<3)  // the tone begins with the chunk
        let total = found.reduce(0) { $0 + $1.samples.count }
        #expect(try #require(found.last?.words.last).seconds.upperBound == Double(total) / 24000)
    }

    @Test func wordsAreReadAndTimed() async throws {
        let found = try await spoken(speaker().speak("The apple fell. Nobody saw it!", voice: "rms"))
        #expect(found.map(\.phonemes) == ["ði ˈæpᵊl fˈɛl.", "nˈObˌɑdi sˈɔ ɪt!"] && found[1].words.map(\.text) == ["Nobody", "saw", "it", "!"])
        let paused = try await spoken(speaker().speak("Only 7. [pause 300ms] Go!", voice: "rms"))
        #expect(paused.map(\.phonemes) == ["ˈOnli sˈɛvən..", "ɡˌO!"] && paused.map(\.silence) == [0, 7200])  // as Python: a mark each
    }

    @Test func aTextIsSpokenWhileItIsWritten() async throws {
        let live = LiveText(), pieces = ["The apple", " fell. Nob", "ody saw", " it!\n\n", "Go", ".<break time=\"250ms\"/>"]
        var iterator = try speaker().speak(live, voice: "rms").makeAsyncIterator(), found: [SpokenAudio] = []
        for (number, piece) in pieces.enumerated() {
            live.write(piece)
            if number == 2 || number == 3 { found.append(try #require(try await iterator.next())) }  // before the rest is written
        }
        live.finish()
        while let audio = try await iterator.next() { found.append(audio) }
        let whole = try await spoken(speaker().speak(pieces.joined(), voice: "rms"))
        #expect(found.map(\.phonemes) == whole.map(\.phonemes) && found.map(\.silence) == whole.map(\.silence) && whole.count == 4)
        #expect(found.map(\.startSample) == whole.map(\.startSample) && found.flatMap(\.words).map(\.place) == whole.flatMap(\.words).map(\.place))
    }

    @Test func aSentenceThatNothingFollowsForNowIsSpoken() async throws {
        let live = LiveText()
        var iterator = try speaker().speak(live, voice: "rms").makeAsyncIterator()
        live.write("The apple fell.")
        #expect(try #require(try await iterator.next()).words.map(\.text) == ["The", "apple", "fell", "."])
        live.write(" Nobody saw")
        live.write(" it!")
        #expect(try #require(try await iterator.next()).words.map(\.text) == ["Nobody", "saw", "it", "!"])
        live.finish(throwing: .unsupported("the writer left"))
        await #expect(throws: KokoroError.self) { _ = try await iterator.next() }
    }

    @Test func paceAndSilenceThatATextAsksForAreSpoken() async throws {
        let text = "Hello. <prosody rate=\"50%\">Hello.</prosody> Hello.<break time=\"250ms\"/>"
        let found = try await spoken(speaker().speak(text, voice: "rms", speed: 2))
        #expect(found.map(\.phonemes) == ["həlˈO.", "həlˈO.", "həlˈO..", ""] && found.map(\.silence) == [0, 2400, 2400, 6000])
        #expect(found.prefix(2).map { $0.durations.reduce(0, +) } == [8, 16] && found[3].samples == [Float](repeating: 0, count: 6000))
        let slowest = try await spoken(speaker().speak(text, voice: "rms", speed: 0.25))  // not below what the encoder takes
        #expect(slowest[1].durations == slowest[0].durations && slowest[3].silence == 6000)
    }

    @Test func whatIsTooLongIsCutBetweenWords() async throws {
        let words = Array(repeating: "wˈɜɹd", count: 10).joined(separator: " ") + "."
        let byPhonemes = try await spoken(speaker().speak(phonemes: words, voice: "rms", longest: 30))
        let byFrames = try await spoken(speaker(ToneBackend(longest: 100)).speak(phonemes: words, voice: "rms"))
        for found in [byPhonemes, byFrames] {
            #expect(found.count > 1 && found.map(\.phonemes).joined(separator: " ") == words && found.dropFirst().allSatisfy { $0.silence == 0 })
        }
    }

    @Test func aLoudPieceIsTurnedDown() async throws {
        let found = try await spoken(speaker(ToneBackend(level: 2)).speak(phonemes: "hˈI.", voice: "rms"))
        #expect(found[0].gain < 1 && found[0].samples.allSatisfy { abs($0) <= 1 })
    }

    @Test func tenSpeakersAtOnceSayWhatOneSays() async throws {
        let speakers = try (0..<10).map { _ in try speaker() }
        let alone = try await spoken(speakers[0].speak(phonemes: "hˈI. ðˈɛɹ.", voice: "rms", seed: 3)).flatMap(\.samples)
        try await withThrowingTaskGroup(of: [Float].self) { group in
            for speaker in speakers {
                group.addTask {
                    var all: [Float] = []
                    for try await audio in speaker.speak(phonemes: "hˈI. ðˈɛɹ.", voice: "rms", seed: 3) { all += audio.samples }
                    return all
                }
            }
            for try await samples in group { #expect(samples == alone) }
        }
    }

    @Test func aConsumerThatLeavesStopsTheWork() async throws {
        let backend = ToneBackend(), speaker = try speaker(backend), text = String(repeating: "hˈI ðˈɛɹ. ", count: 200)
        for try await _ in speaker.speak(phonemes: text, voice: "rms") { break }
        let task = Task { for try await audio in speaker.speak(phonemes: text, voice: "rms") where audio.index == 1 { withUnsafeCurrentTask { $0?.cancel() } } }
        await #expect(throws: CancellationError.self) { try await task.value }
        try await Task.sleep(for: .milliseconds(300))
        #expect(await backend.calls < 10)
    }

    @Test func badInputIsToldInOneLine() async throws {
        func refused(_ phonemes: String, voice: String = "rms", speed: Double = 1) async throws -> KokoroError? {
            do { _ = try await spoken(speaker().speak(phonemes: phonemes, voice: voice, speed: speed)) } catch let error as KokoroError { return error }
            return nil
        }
        #expect(try await refused("") == .nothingToSay)
        #expect(try await refused(" ?! \n") == .nothingToSay)
        await #expect(throws: KokoroError.nothingToSay) { for try await _ in try speaker().speak(" ?! \n", voice: "rms") {} }
        #expect(try await refused("hˈI", voice: "../rms") == .unknownVoice("../rms", known: ["awb", "rms", "slt"]))
        #expect(try await refused("hˈI", speed: 9) == .speedOutOfRange(9))
        #expect(try await refused("h7") == .unknownSymbol("7", place: 1))
        #expect(KokoroError.unknownSymbol("7", place: 1).localizedDescription == "U+0037 at 1 is no phoneme of this vocabulary")
        let endless = try speaker(ToneBackend(framesPerToken: .nan))
        await #expect(throws: KokoroError.self) { for try await _ in endless.speak(phonemes: "hˈI.", voice: "rms") {} }
    }

    /// /dev/full takes nothing, as a disk without space.
    @Test func audioIsWrittenOrTheDisksRefusalIsTold() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString), full = URL(fileURLWithPath: "/dev/full")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        var wave = try WaveFile(folder.appendingPathComponent("a.wav"))
        try wave.append([0, 1, -1])
        try wave.close()
        let bytes = try Data(contentsOf: folder.appendingPathComponent("a.wav"))
        #expect(wave.samples == 3 && bytes.count == 50 && bytes.suffix(4).elementsEqual([0xFF, 0x7F, 0x01, 0x80]) && bytes[40] == 6)
        #expect(throws: KokoroError.self) { try WaveFile(URL(fileURLWithPath: "/nowhere/a.wav")) }
        guard FileManager.default.fileExists(atPath: full.path) else { return }
        try FileManager.default.createSymbolicLink(at: folder.appendingPathComponent(".b.wav.partial"), withDestinationURL: full)
        #expect(throws: KokoroError.self) { try WaveFile(folder.appendingPathComponent("b.wav")) }
    }

    @Test func whatWasReportedOfASystemIsTold() throws {
        let bundle = try TestBundles.packages()
        func told(_ system: String, _ version: Int...) -> [String] { bundle.advisories(system, version).map(\.says) }
        #expect(told("iOS", 26, 3).isEmpty && told("iOS", 26, 4).count == 1 && told("iOS", 26, 9).count == 1)
        #expect(told("iOS", 27, 0).count == 2 && told("iOS", 27, 0).contains { $0.contains("entitlement") })
        #expect(told("macOS", 26, 5).count == 2 && told("macOS", 26, 6).count == 1 && told("macOS", 15, 7).isEmpty)
        #expect(bundle.advisories.isEmpty)  // of a Linux machine
    }

    @Test func damagedBundlesAreRefusedAndNamed() throws {
        let cases: [(file: String, damage: (URL) throws -> Void)] = [
            ("manifest.json", { try FileManager.default.removeItem(at: $0) }),
            ("manifest.json", { try Data("{\"format\": 2}".utf8).write(to: $0) }),
            ("vocabulary.json", { try Data("[]".utf8).write(to: $0) }),
            ("voices/rms.style", { try Data(count: 1023).write(to: $0) }),
            ("voices/awb.style", { try FileManager.default.removeItem(at: $0) }),
            ("text/us.words", { try Data(contentsOf: $0).prefix(100_000).write(to: $0) }),
            ("text/us.words", { try Data().write(to: $0) }),
            ("text/us.words", { try FileManager.default.removeItem(at: $0) }),
            ("text/us.rules", { try (Data(contentsOf: $0) + Data([0])).write(to: $0) }),  // of another version
        ]
        for (file, damage) in cases {
            let bundle = try TestBundles.copy()
            defer { try? FileManager.default.removeItem(at: bundle) }
            #expect(throws: Never.self) { try SpeechBundle(at: bundle) }
            try damage(bundle.appendingPathComponent(file))
            #expect(throws: KokoroError.self, "\(file)") { try SpeechBundle(at: bundle) }
        }
        let mixed = try TestBundles.copy(), bundle = try SpeechBundle(at: mixed)
        defer { try? FileManager.default.removeItem(at: mixed) }
        let manifest = try #require(FileManager.default.contentsOfDirectory(atPath: mixed.appendingPathComponent("packages").path).first { $0.hasSuffix(".json") })
        try Data("{\"checkpoint\": {\"name\": \"other\", \"sha256\": \"00\"}}".utf8).write(to: mixed.appendingPathComponent("packages/\(manifest)"))
        #expect(throws: KokoroError.mixedCheckpoints("packages/\(manifest)")) { try SpeechBundle(at: mixed) }
        try FileManager.default.removeItem(at: bundle.network("vocoder").file)
        #expect(throws: KokoroError.self) { try SpeechBundle(at: mixed) }
    }

    @Test func aBlendIsTheMeanOfItsVoices() throws {
        let bundle = try TestBundles.packages(), rms = try bundle.voice("rms"), slt = try bundle.voice("slt")
        let row = try VoiceTable(blend: [(rms, 3), (slt, 1)]).row(phonemes: 7)
        for ((mixed, one), other) in zip(zip(row, try rms.row(phonemes: 7)), try slt.row(phonemes: 7)) { #expect(abs(mixed - (0.75 * one + 0.25 * other)) < 1e-6) }
        #expect(throws: KokoroError.self) { try VoiceTable(blend: [(rms, -1), (slt, 2)]) }
    }
}
