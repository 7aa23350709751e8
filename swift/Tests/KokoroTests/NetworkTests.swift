import Foundation
@testable import Kokoro
@testable import KokoroONNX
import KokoroSteps
import KokoroVectors
import Synchronization
import Testing

#if canImport(CoreML)
import CoreML
#endif

/// Whole utterances by real networks, or by what they said when the bundle was made, against the stored samples.
@Suite struct NetworkTests {
    private func pieces(_ speaker: Kokoro, _ text: String, speed: Double, seed: Int, longest: Int = 300, raw: Bool = false) async throws -> [SpokenAudio] {
        var found: [SpokenAudio] = []
        for try await audio in speaker.speak(phonemes: text, voice: "awb", speed: speed, seed: seed, longest: longest, raw: raw) { found.append(audio) }
        return found
    }

    /// Chunks from phonemes on. `leastDB`: of the samples, whose noise differs from the stored at 149 dB.
    private func compareUtterances(_ bundle: SpeechBundle, _ backend: any SpeechBackend, leastDB: Double) throws {
        let folder = bundle.folder.appendingPathComponent("vectors"), recorded = try #require(bundle.manifest.vocoder.source)
        let source = try HarmonicSource(weights: recorded.weights, bias: recorded.bias)
        let synthesis = ChunkSynthesis(vocabulary: bundle.vocabulary, limits: bundle.limits, source: source, backend: backend)
        for utterance in try VectorIndex.read(folder).utterances {
            let stored = StoredUtterance(utterance, in: folder), row = try bundle.table(of: "awb").row(phonemes: stored.phonemes.count)
            let found = try synthesis.speak([stored.phonemes], row: row, speed: utterance.speed, seed: utterance.seed)
            let reached = snrDB(try stored("samples").values, found.chunk.samples.map(Double.init))
            print("   \(utterance.id): \(reached) dB")
            #expect(try found.durations == stored("durations").integers && reached >= leastDB)
        }
    }

    @Test(.enabled(if: TestBundles.onnxGiven, "KOKORO_BUNDLE_ONNX is not set"))
    func onnxRuntimeSaysWhatPythonSaid() async throws {
        let bundle = try SpeechBundle(at: TestBundles.folder("KOKORO_BUNDLE_ONNX")), library = try OnnxLibrary(path: TestBundles.library)
        let backend = try OnnxBackend(bundle: bundle, library: library), speaker = try await Kokoro(bundle: bundle) { _ in backend }
        try compareUtterances(bundle, backend, leastDB: 90)
        let text = try VectorIndex.read(bundle.folder.appendingPathComponent("vectors")).text
        let found = try await pieces(speaker, text.phonemes, speed: text.speed, seed: text.seed, longest: text.longestPhonemes)
        #expect(found.map(\.phonemes) == text.chunks.map(\.phonemes) && found.map(\.durations) == text.chunks.map(\.durations))
        #expect(found.map(\.silence) == text.chunks.map(\.pauseSamples))
        #expect(found.map { $0.startSample + $0.silence } == text.chunks.map(\.startSample))
        for (piece, chunk) in zip(found, text.chunks) {
            let heard = [1, chunk.edges.count - 2].map { Double(chunk.startSample + chunk.edges[$0]) / 24000 }
            #expect(piece.words.first?.seconds.lowerBound == heard[0] && piece.words.last?.seconds.upperBound == heard[1])
            #expect(piece.words.map(\.text) == chunk.words.map(\.text) && piece.words.map(\.place) == chunk.words.map { $0.start..<$0.end })
        }
        let wave = try Data(contentsOf: bundle.folder.appendingPathComponent("vectors/\(text.file)")).dropFirst(44)
        let stored = wave.withUnsafeBytes { bytes in (0..<bytes.count / 2).map { Double(Int16(littleEndian: bytes.loadUnaligned(fromByteOffset: 2 * $0, as: Int16.self))) } }
        let joined = snrDB(stored, pcm16(found.flatMap(\.samples)).map { Double($0) })
        print("   text of \(found.count) pieces: \(joined) dB")
        #expect(joined >= 80)
        #expect(throws: KokoroError.self) { try OnnxBackend(bundle: TestBundles.packages(), library: library) }
    }

    @Test func aLibraryThatIsNotThereIsAnError() {
        #expect(throws: KokoroError.self) { try OnnxLibrary(path: "/nowhere/libonnxruntime.so") }
    }

    @Test(.enabled(if: TestBundles.onnxGiven, "KOKORO_BUNDLE_ONNX is not set"))
    func aLibraryThatIsLinkedIsTakenByItsOneFunction() async throws {
        let opened = try #require(dlopen(TestBundles.library, RTLD_NOW)), symbol = try #require(dlsym(opened, "OrtGetApiBase"))
        typealias GetBase = @convention(c) () -> UnsafeRawPointer?
        let linked = try OnnxLibrary(linked: unsafeBitCast(symbol, to: GetBase.self)), named = try OnnxLibrary(path: TestBundles.library)
        #expect(linked.version == named.version)
        let one = try await Kokoro(bundle: TestBundles.folder("KOKORO_BUNDLE_ONNX"), onnx: linked)
        #expect(try await pieces(one, "hˈI.", speed: 1, seed: 0).count == 1)
        #expect(throws: KokoroError.self) { try OnnxLibrary(linked: { nil }) }
        await #expect(throws: KokoroError.self) { try await Kokoro(bundle: TestBundles.folder("KOKORO_BUNDLE"), onnx: linked) }
    }

    #if canImport(CoreML)
    @Test func coreMLIsCalledWithTheManifestsShapesAndRead() async throws {
        let bundle = try TestBundles.packages(), cache = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: cache) }
        var options = CoreMLOptions()
        options.cache = cache
        func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: cache.path).sorted() }
        for _ in 0..<2 {  // the second finds what the first compiled
            try compareUtterances(bundle, try await CoreMLBackend(bundle: bundle, options: options), leastDB: .infinity)
        }
        let own = try names(), old = cache.appendingPathComponent("00ff.mlmodelc"), other = cache.appendingPathComponent("notes.txt")
        #expect(own.count == 2)
        // an older bundle's copy goes, what is no copy stays; a copy that does not open is made anew
        for made in [old, other] { try FileManager.default.createDirectory(at: made, withIntermediateDirectories: true) }
        try FileManager.default.removeItem(at: cache.appendingPathComponent(own[0]).appendingPathComponent("origin"))
        let steps = Mutex([String]())
        for try await step in Kokoro.load(bundle: bundle.folder, options: options) { steps.withLock { $0.append("\(step)") } }
        #expect(try names() == (own + ["notes.txt"]).sorted())
        let told = steps.withLock { $0 }
        #expect(told.first == "checking" && told.last?.hasPrefix("ready") == true)
        #expect(told.filter { $0.hasPrefix("compiling") }.count == 1)
        #expect(told.filter { $0.hasPrefix("opening") }.count >= 4)
        try Kokoro.removeCompiledPackages(in: cache)
        #expect(!FileManager.default.fileExists(atPath: cache.path))
    }

    @Test func whatCoreMLAndTheDiskSayAreKokoroErrors() async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try Data().write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var options = CoreMLOptions()
        options.cache = file  // a file where the folder should be
        do {
            _ = try await Kokoro(bundle: TestBundles.folder("KOKORO_BUNDLE"), options: options)
            Issue.record("no error")
        } catch KokoroError.disk { }
        options.cache = file.appendingPathExtension("d")
        defer { if let cache = options.cache { try? FileManager.default.removeItem(at: cache) } }
        let one = try await Kokoro(bundle: TestBundles.folder("KOKORO_BUNDLE"), options: options)
        do {
            for try await _ in one.speak(phonemes: "hˈI ˌænd hˈI.", voice: "rms") {}  // nothing that was recorded
            Issue.record("no error")
        } catch KokoroError.backend(let words) { #expect(!words.contains("entitlement")) }
    }
    #endif

    /// A bundle of packages whose vocoder says that it has three functions.
    private func streamingPackages() throws -> URL {
        let folder = try TestBundles.copy(), file = folder.appendingPathComponent("manifest.json")
        var read = try #require(JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
        var vocoder = try #require(read["vocoder"] as? [String: Any])
        vocoder["inputs"] = ["decoder": ["features": ["frames": [40, 80]]], "utterance": ["features": ["frames": [40]]], "window": ["features": ["frames": [16, 40]]]]
        (read["layout"], read["vocoder"]) = ("streaming", vocoder)
        try JSONSerialization.data(withJSONObject: read).write(to: file)
        // of the stand-in's two channels: nothing is added at either end of the style's line
        for voice in ["awb", "rms", "slt"] { try Data(count: 16).write(to: folder.appendingPathComponent("voices/\(voice).statistics")) }
        try FileManager.default.createSymbolicLink(
            at: folder.appendingPathComponent("vectors"), withDestinationURL: TestBundles.folder("KOKORO_BUNDLE").appendingPathComponent("vectors"))
        return folder
    }

    #if canImport(CoreML)
    @Test func functionsOfOnePackageAreCalledWindowByWindow() async throws {
        let folder = try streamingPackages(), bundle = try SpeechBundle(at: folder), cache = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { for made in [folder, cache] { try? FileManager.default.removeItem(at: made) } }
        var options = CoreMLOptions()
        options.cache = cache
        let backend = try await CoreMLBackend(bundle: bundle, options: options), recorded = try #require(bundle.manifest.vocoder.source)
        let synthesis = ChunkSynthesis(
            vocabulary: bundle.vocabulary, limits: bundle.limits, source: try HarmonicSource(weights: recorded.weights, bias: recorded.bias), backend: backend)
        for utterance in try VectorIndex.read(bundle.folder.appendingPathComponent("vectors")).utterances {
            let stored = StoredUtterance(utterance, in: bundle.folder.appendingPathComponent("vectors")), spectrum = try stored("spectrum").floats
            let row = try bundle.table(of: "awb").row(phonemes: stored.phonemes.count), frames = try stored("asr").shape[2], isWhole = frames <= 40
            let whole = try synthesis.speak([stored.phonemes], row: row, speed: utterance.speed, seed: utterance.seed)
            var streamed = try #require(try synthesis.stream(stored.phonemes, row: row, speed: utterance.speed, seed: utterance.seed, raw: true))
            var pieces: [[Float]] = []
            while let piece = try streamed.next() { pieces.append(piece.samples) }
            let factor: Float = isWhole ? 0.25 : 0.5
            var waveform: [Float] = []
            for place in 0..<600 * frames { waveform.append(HalfFloat.value(HalfFloat.bits(spectrum[place / 5])) * factor) }
            let wanted = FinishedChunk(waveform: waveform), joined: [Float] = Array(pieces.joined()), isCut = pieces.count > 2
            let reached: Double = snrDB(wanted.samples.map { Double($0) }, whole.chunk.samples.map { Double($0) })
            #expect(reached > 60)
            #expect(isCut != isWhole)
            #expect(joined.count == waveform.count)
            let both: Double = snrDB(whole.chunk.samples.map { Double($0) }, joined.map { Double($0) })
            if wanted.gain == 1 { #expect(both > 100) }
        }
    }
    #endif

    #if canImport(CoreML)
    /// The stand-in refuses what was not recorded, and computes the three functions of the streaming layout from anything.
    @Test func aReportHasTheRowsThatPythonReads() async throws {
        let folder = try streamingPackages(), file = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { for made in [folder, file] { try? FileManager.default.removeItem(at: made) } }
        try await DeviceReport.measured(SpeechBundle(at: folder)).write(to: file)
        let report = try #require(JSONSerialization.jsonObject(with: Data(contentsOf: file)) as? [String: Any])
        #expect(Set(report.keys) == ["format", "chip", "system", "coremltools", "peak_mib", "packages"])
        let packages = try #require(report["packages"] as? [[String: Any]]), rows = try packages.flatMap { try #require($0["rows"] as? [[String: Any]]) }
        #expect(packages.count == 2 && Set(rows.compactMap { $0["function"] as? String }) == ["duration", "prosody", "decoder", "utterance", "window"])
        for row in rows where row["function"] as? String == "window" {
            let timings = try #require(row["timings"] as? [String: [String: Any]])
            #expect(Set(timings.keys) == ["CPU_ONLY", "CPU_AND_GPU", "CPU_AND_NE", "ALL"] && row["refused"] == nil)
            #expect(timings.values.allSatisfy { ($0["predict_ms"] as? [Double])?.count == 10 })
        }
        #expect(rows.contains { ($0["refused"] as? String)?.contains("was not recorded") == true })
    }
    #endif

    @Test(.enabled(if: TestBundles.streamingGiven, "KOKORO_BUNDLE_STREAMING is not set"))
    func onnxRuntimeStreamsWindowsAndStopsAmidAnUtterance() async throws {
        let bundle = try SpeechBundle(at: TestBundles.folder("KOKORO_BUNDLE_STREAMING")), library = try OnnxLibrary(path: TestBundles.library)
        let backend = try OnnxBackend(bundle: bundle, library: library), speaker = try await Kokoro(bundle: bundle) { _ in backend }
        try compareUtterances(bundle, backend, leastDB: 90)
        let long = String(repeating: "həlˈO ðˈɛɹ. ", count: 8).replacingOccurrences(of: ". ", with: ", ") + "hˈI.", symbols = Array(long.unicodeScalars)
        let found = try await pieces(speaker, long, speed: 1, seed: 3, raw: true)
        let first = try #require(found.first), frames: Int = first.durations.reduce(0, +)
        var at = 0
        for piece in found {
            #expect(piece.startSample == at)
            #expect(piece.index == 0)
            #expect(piece.words.isEmpty == (at > 0))
            at += piece.samples.count
        }
        #expect(at == 600 * frames)
        #expect(found.count > 2)
        #expect(first.samples.count < 14_400)
        let recorded = try #require(bundle.manifest.vocoder.source), source = try HarmonicSource(weights: recorded.weights, bias: recorded.bias)
        let whole = try ChunkSynthesis(vocabulary: bundle.vocabulary, limits: bundle.limits, source: source, backend: backend)
            .speak([symbols], row: bundle.table(of: "awb").row(phonemes: symbols.count), speed: 1, seed: 3)
        let reached: Double = snrDB(whole.chunk.samples.map { Double($0) }, found.flatMap(\.samples).map { Double($0) })
        print("   windows against longer ones: \(reached) dB")
        #expect(whole.chunk.gain < 1 || reached > 100)
        let task = Task {
            var heard = 0
            for try await _ in speaker.speak(phonemes: long, voice: "awb") {
                heard += 1
                withUnsafeCurrentTask { $0?.cancel() }
            }
            return heard
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        for try await audio in speaker.speak(phonemes: long, voice: "awb") {  // a consumer that stops
            #expect(audio.index == 0)
            break
        }
        #expect(try await pieces(speaker, "hˈI.", speed: 1, seed: 0).count == 1)
    }

    @Test func halvesAreTheNearest() {
        for bits in UInt16.min...UInt16.max where bits & 0x7C00 != 0x7C00 || bits & 0x3FF == 0 {
            let value = HalfFloat.value(bits)
            #expect(HalfFloat.bits(value) == bits && value == Float(Float16(bitPattern: bits)))
        }
        var twister = SystemRandomNumberGenerator()
        for _ in 0..<20_000 {
            let value = Float(bitPattern: UInt32.random(in: 0...UInt32.max, using: &twister))
            if !value.isNaN { #expect(HalfFloat.bits(value) == Float16(value).bitPattern, "\(value)") }
        }
    }
}
