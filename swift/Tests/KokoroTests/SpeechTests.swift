import Foundation
import KokoroSteps
@testable import Kokoro
import Testing

/// The speaker on networks without weights: order, times, cancellation, many at once, and bad input.
@Suite struct SpeechTests {
    private func kokoro(_ backend: ToneBackend = ToneBackend()) async throws -> Kokoro { try await Kokoro(bundle: TestBundles.packages()) { _ in backend } }

    private func spoken(_ sequence: SpeechSequence) async throws -> [SpokenAudio] {
        var found: [SpokenAudio] = []
        for try await audio in sequence { found.append(audio) }
        return found
    }

    @Test func piecesFollowOneAnotherWithTheirPausesAndTimes() async throws {
        let found = try await spoken(kokoro().speak(phonemes: "hˈI, ðˈɛɹ.\n\nwˌi “hˈɪɹ.”", voice: "rms"))
        #expect(found.map(\.phonemes) == ["hˈI, ðˈɛɹ.", "wˌi “hˈɪɹ.”"] && found.map(\.silence) == [0, 12000])
        #expect(found[1].startSample == found[0].samples.count && found[1].samples.prefix(12000).allSatisfy { $0 == 0 })
        #expect(found[0].words.map(\.text) == ["hˈI", ",", "ðˈɛɹ", "."])
        #expect(found[0].durations.count == found[0].phonemes.unicodeScalars.count + 2)
        #expect(found[0].words[0].seconds == 0..<0.2 && found[0].words[0].place == 0..<3)  // the tone begins with the chunk
        let total = found.reduce(0) { $0 + $1.samples.count }
        #expect(try #require(found.last?.words.last).seconds.upperBound == Double(total) / 24000)
    }

    @Test func chaptersScenesAndParagraphsRestAsLongAsAskedFor() async throws {
        let text = "# One\nIt rained.\n\n* * *\n\nIt stopped. So.\n\nCHAPTER TWO\n\nThe end.", rate = Double(SpokenAudio.sampleRateHz)
        func silences(_ speed: Double, _ pauses: [Pause: Double]) async throws -> [Double] {
            try await spoken(kokoro().speak(text, voice: "rms", speed: speed, pauses: pauses)).map { Double($0.silence) / rate }
        }
        #expect(try await silences(1, [:]) == [0, 0.5, 1, 0.2, 1.5, 0.5])
        #expect(try await silences(2, [.chapter: 1.75, .scene: 0, .sentence: 0.25]) == [0, 0.25, 0, 0.25, 1.75, 0.25])
        await #expect(throws: KokoroError.self) { _ = try await silences(1, [.chapter: -1]) }
    }

    @Test func wordsAreReadAndTimed() async throws {
        let found = try await spoken(kokoro().speak("The apple fell. Nobody saw it!", voice: "rms"))
        #expect(found.map(\.phonemes) == ["ði ˈæpᵊl fˈɛl.", "nˈObˌɑdi sˈɔ ɪt!"] && found[1].words.map(\.text) == ["Nobody", "saw", "it", "!"])
        let paused = try await spoken(kokoro().speak("Only 7. [pause 300ms] Go!", voice: "rms"))
        #expect(paused.map(\.phonemes) == ["ˈOnli sˈɛvən..", "ɡˌO!"] && paused.map(\.silence) == [0, 7200])  // as Python: a mark each
    }

    @Test func aTextIsSpokenWhileItIsWritten() async throws {
        let live = LiveText(), pieces = ["The apple", " fell. Nob", "ody saw", " it!\n\n", "Go", ".<break time=\"250ms\"/>"]
        var iterator = try await kokoro().speak(live, voice: "rms").makeAsyncIterator(), found: [SpokenAudio] = []
        for (number, piece) in pieces.enumerated() {
            live.write(piece)
            if number == 2 || number == 3 { found.append(try #require(try await iterator.next())) }  // before the rest is written
        }
        live.finish()
        while let audio = try await iterator.next() { found.append(audio) }
        let whole = try await spoken(kokoro().speak(pieces.joined(), voice: "rms"))
        #expect(found.map(\.phonemes) == whole.map(\.phonemes) && found.map(\.silence) == whole.map(\.silence) && whole.count == 4)
        #expect(found.map(\.startSample) == whole.map(\.startSample) && found.flatMap(\.words).map(\.place) == whole.flatMap(\.words).map(\.place))
    }

    @Test func aSentenceThatNothingFollowsForNowIsSpoken() async throws {
        let live = LiveText()
        var iterator = try await kokoro().speak(live, voice: "rms").makeAsyncIterator()
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
        let found = try await spoken(kokoro().speak(text, voice: "rms", speed: 2))
        #expect(found.map(\.phonemes) == ["həlˈO.", "həlˈO.", "həlˈO..", ""] && found.map(\.silence) == [0, 2400, 2400, 6000])
        #expect(found.prefix(2).map { $0.durations.reduce(0, +) } == [8, 16] && found[3].samples == [Float](repeating: 0, count: 6000))
        let slowest = try await spoken(kokoro().speak(text, voice: "rms", speed: 0.25))  // not below what the encoder takes
        #expect(slowest[1].durations == slowest[0].durations && slowest[3].silence == 6000)
    }

    @Test func whatIsTooLongIsCutBetweenWords() async throws {
        let words = Array(repeating: "wˈɜɹd", count: 10).joined(separator: " ") + "."
        let byPhonemes = try await spoken(kokoro().speak(phonemes: words, voice: "rms", longest: 30))
        let byFrames = try await spoken(kokoro(ToneBackend(longest: 100)).speak(phonemes: words, voice: "rms"))
        for found in [byPhonemes, byFrames] {
            #expect(found.count > 1 && found.map(\.phonemes).joined(separator: " ") == words && found.dropFirst().allSatisfy { $0.silence == 0 })
        }
    }

    @Test func aLoudPieceIsTurnedDown() async throws {
        let found = try await spoken(kokoro(ToneBackend(level: 2)).speak(phonemes: "hˈI.", voice: "rms"))
        #expect(found[0].gain < 1 && found[0].samples.allSatisfy { abs($0) <= 1 })
    }

    @Test func tenSpeakersAtOnceSayWhatOneSays() async throws {
        var speakers: [Kokoro] = []
        for _ in 0..<10 { speakers.append(try await kokoro()) }
        let alone = try await spoken(speakers[0].speak(phonemes: "hˈI. ðˈɛɹ.", voice: "rms", seed: 3)).flatMap(\.samples)
        try await withThrowingTaskGroup(of: [Float].self) { group in
            for one in speakers {
                group.addTask {
                    var all: [Float] = []
                    for try await audio in one.speak(phonemes: "hˈI. ðˈɛɹ.", voice: "rms", seed: 3) { all += audio.samples }
                    return all
                }
            }
            for try await samples in group { #expect(samples == alone) }
        }
    }

    @Test func aConsumerThatLeavesStopsTheWork() async throws {
        let backend = ToneBackend(), one = try await kokoro(backend), text = String(repeating: "hˈI ðˈɛɹ. ", count: 200)
        for try await _ in one.speak(phonemes: text, voice: "rms") { break }
        let task = Task { for try await audio in one.speak(phonemes: text, voice: "rms") where audio.index == 1 { withUnsafeCurrentTask { $0?.cancel() } } }
        await #expect(throws: CancellationError.self) { try await task.value }
        try await Task.sleep(for: .milliseconds(300))
        #expect(await backend.calls < 10)
    }

    @Test func badInputIsToldInOneLine() async throws {
        func refused(_ phonemes: String, voice: String = "rms", speed: Double = 1) async throws -> KokoroError? {
            do { _ = try await spoken(kokoro().speak(phonemes: phonemes, voice: Voice(voice), speed: speed)) } catch let error as KokoroError { return error }
            return nil
        }
        #expect(try await refused("") == .nothingToSay)
        #expect(try await refused(" ?! \n") == .nothingToSay)
        await #expect(throws: KokoroError.nothingToSay) { for try await _ in try await kokoro().speak(" ?! \n", voice: "rms") {} }
        #expect(try await refused("hˈI", voice: "../rms") == .unknownVoice("../rms", known: ["awb", "rms", "slt"]))
        #expect(try await refused("hˈI", speed: 9) == .speedOutOfRange(9))
        #expect(try await refused("h7") == .unknownSymbol("7", place: 1))
        #expect(KokoroError.unknownSymbol("7", place: 1).localizedDescription == "U+0037 at 1 is no phoneme of this vocabulary")
        let endless = try await kokoro(ToneBackend(framesPerToken: .nan))
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
        func told(_ system: String, _ version: Int...) -> [String] { bundle.advisories(Device(system: system, version: version)).map(\.says) }
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
        let bundle = try TestBundles.packages(), rms = try bundle.table(of: "rms"), slt = try bundle.table(of: "slt")
        let row = try bundle.table(of: Voice(blend: ["rms": 3, "slt": 1])).row(phonemes: 7)
        for ((mixed, one), other) in zip(zip(row, try rms.row(phonemes: 7)), try slt.row(phonemes: 7)) { #expect(abs(mixed - (0.75 * one + 0.25 * other)) < 1e-6) }
        #expect(throws: KokoroError.self) { try bundle.table(of: Voice(blend: ["rms": -1, "slt": 2])) }
        let file = bundle.folder.appendingPathComponent("voices/rms.style")
        #expect(try bundle.table(of: Voice(file: file, language: .britishEnglish)).row(phonemes: 7) == rms.row(phonemes: 7))
    }

    /// A voice whose style moves by one number a row, in the decoder's half: the line from 80 phonemes to 300 is as long as 220 rows.
    @Test func whatAVoiceAddsFollowsItsStyleAlongALine() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let direction = (0..<256).map { Float($0 == 5 ? 1 : 0) }, numbers = [Float](repeating: 0.5, count: 256) + direction + (0..<510).map { Float($0) }
        let style = folder.appendingPathComponent("mine.style"), halves = [Float](arrayLiteral: 1, -2, 10, 4).map { HalfFloat.bits($0).littleEndian }
        try numbers.map(\.bitPattern.littleEndian).withUnsafeBytes { Data($0) }.write(to: style)
        #expect(throws: KokoroError.self) { try VoiceTable(file: style, isPredicted: true) }
        try halves.withUnsafeBytes { Data($0) }.write(to: folder.appendingPathComponent("mine.statistics"))
        let voice = try VoiceTable(file: style, isPredicted: true)
        #expect(try Array(voice.row(phonemes: 80)[256...]) == [1, -2])
        #expect(try Array(voice.row(phonemes: 300)[256...]) == [11, 2])
        #expect(try Array(voice.row(phonemes: 190)[256...]) == [6, 0])
        #expect(try VoiceTable(file: style, isPredicted: false).row(phonemes: 80).count == 256)
    }

    @Test func aVoiceIsAValue() async throws {
        #expect(Voice("bf_emma").language == .britishEnglish && Voice("rms").language == .americanEnglish && Voice("jf_x").language == .japanese)
        let bundle = try TestBundles.packages()
        #expect(try await kokoro().voices.map(\.name) == ["awb", "rms", "slt"] && bundle.languages == [.americanEnglish])
        let mixed = try await spoken(kokoro().speak("Hello.", voice: Voice(blend: ["rms": 1, "slt": 1])))
        #expect(mixed.map(\.phonemes) == ["həlˈO."])
    }

    @Test func wordsStandInTheTextThatWasGiven() async throws {
        let text = "Né? 👩‍🚀 \u{65}\u{301}tudes cost $5.\r\nOne more", found = try await spoken(kokoro().speak(text, voice: "rms"))
        for word in found.flatMap(\.words) { #expect(String(text[word.range]) == word.text || word.text.isEmpty, "\(word)") }
        #expect(found.flatMap(\.words).contains { text[$0.range] == "more" })
    }

    @Test func aSeedMayBeTheGreatest() async throws {
        #expect(try await spoken(kokoro().speak("Hello there, you. And once more to you.", voice: "rms", seed: .max)).count == 2)
    }

    @Test func aVoiceThatTheBundleDoesNotHoldIsSpokenByTheOneThatWasGiven() async throws {
        let found = try await spoken(kokoro().speak("One for you. <voice name=\"nobody\">Two for you.</voice> <voice name=\"slt\">Three for you.</voice>", voice: "rms"))
        #expect(found.count == 3 && found.map(\.voiceAskedFor) == [nil, "nobody", "slt"])
    }

    @Test func aLexiconGoesBeforeAllLists() async throws {
        func said(_ lexicon: [String: String]) async throws -> String { try await spoken(kokoro().speak("Hello Anna.", voice: "rms", lexicon: lexicon)).map(\.phonemes).joined() }
        #expect(try await said(["hello": "wˈɜɹd"]) == said([:]).replacingOccurrences(of: "həlˈO", with: "wˈɜɹd"))
    }

    @Test func unloadedNetworksAreOpenedAgain() async throws {
        let opened = Counter(), one = try await Kokoro(bundle: TestBundles.packages()) { _ in
            await opened.add()
            return ToneBackend()
        }
        let before = try await spoken(one.speak("Hello there.", voice: "rms")).map(\.samples)
        await one.unload()
        #expect(try await spoken(one.speak("Hello there.", voice: "rms")).map(\.samples) == before)
        #expect(await opened.count == 2)
    }

    /// The networks run on a queue of each actor's. On the threads of Swift's tasks no more calls than the machine has processors would begin.
    @Test func moreNetworksThanProcessorsWorkAtOnce() async throws {
        let texts = ProcessInfo.processInfo.activeProcessorCount + 2, slow = ToneBackend(meets: texts), met = Counter()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<texts {
                let one = try await kokoro(slow)
                group.addTask {
                    for try await _ in one.speak(phonemes: "hˈI.", voice: "rms") where slow.begun == texts { await met.add() }
                }
            }
            try await group.waitForAll()
        }
        #expect(await met.count == texts)
    }

    /// Bytes of us.json, some of which used to stop the program.
    @Test func aFlippedBitInWhatReadsTextIsAnErrorOfTheFirstText() async throws {
        for seed in 0..<12 {
            let folder = try TestBundles.copy(), file = folder.appendingPathComponent(seed % 3 == 0 ? "text/us.bin" : seed % 3 == 1 ? "text/us.json" : "text/us.rules")
            defer { try? FileManager.default.removeItem(at: folder) }
            var data = try Data(contentsOf: file)
            data[(data.count / 12) * seed + 7] ^= 1 << UInt8(seed % 7)
            try data.write(to: file)
            let one = try await Kokoro(bundle: SpeechBundle(at: folder)) { _ in ToneBackend() }
            await #expect(throws: KokoroError.badFile("text/\(file.lastPathComponent)", reason: "its hash is another: copy the bundle again")) {
                for try await _ in one.speak("Hello.", voice: "rms") {}
            }
        }
    }

    @Test func hashesAreThoseOfEverybody() throws {
        #expect(SHA256.hash(Data()) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(SHA256.hash(Data("abc".utf8)) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        let bundle = try TestBundles.packages()
        for entry in bundle.manifest.text + [bundle.manifest.vocabulary] { #expect(try SHA256.hash(of: bundle.folder.appendingPathComponent(entry.file)) == entry.sha256) }
    }

    @Test func everyErrorSaysWhatCanBeDone() {
        let all: [KokoroError] = [.nothingToSay, .unknownVoice("x", known: []), .badFile("x", reason: "y"), .backend("x"), .disk("x", reason: "y"), .network("x", reason: "y"), .audio("x")]
        for error in all { #expect(error.recovery.hasSuffix(".") && error.recoverySuggestion == error.recovery && !error.description.contains("\n")) }
    }

    @Test func unitsAreThoseThatWereReportedToLast() throws {
        let bundle = try TestBundles.packages()
        func units(_ stage: String, _ system: String, _ version: [Int], chip: String = "", machine: String = "") -> String {
            bundle.computeUnits(stage, Device(system: system, version: version, chip: chip, machine: machine))
        }
        #expect(units("encoder", "iOS", [26, 1], machine: "iPad16,3") == "CPU_AND_GPU" && units("encoder", "iOS", [26, 1], machine: "iPad17,2") == "CPU_ONLY")
        #expect(units("encoder", "iOS", [27, 0], machine: "iPhone17,1") == "CPU_ONLY" && units("vocoder", "iOS", [27, 0]) == "CPU_AND_NE")
        #expect(units("encoder", "macOS", [15, 0], chip: "Apple M4 Pro") == "CPU_AND_GPU" && units("encoder", "macOS", [26, 5], chip: "Apple M5 Pro") == "CPU_ONLY")
        #expect(units("encoder", "none", [1]) == "CPU_ONLY")
    }
}
