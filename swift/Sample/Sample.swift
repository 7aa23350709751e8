#if canImport(SwiftUI) && canImport(AVFoundation) && canImport(CoreML)
import AVFoundation
import Kokoro
import SwiftUI

/// One screen: a text, a voice, a speed, a button that speaks or stops. The bundle lies in the app as the folder `Kokoro`.
@main struct SampleApp: App {
    var body: some Scene { WindowGroup { SpeakingScreen() } }
}

/// What the screen shows, and the task that speaks.
@MainActor @Observable final class Speaking {
    var text = "Dr. Smith paid $3.50 at 5:30 pm."  // one at a time: @Observable takes no lists
    var voice = ""
    var speed = 1.0
    private(set) var voices: [String] = []
    private(set) var said = ""
    private(set) var isSpeaking = false
    private var speaker: Speaker?
    private var task: Task<Void, Never>?
    private let engine = AVAudioEngine(), player = AVAudioPlayerNode()
    private let format = AVAudioFormat(standardFormatWithSampleRate: 24_000, channels: 1)

    /// Opens the bundle: the first time takes as long as Core ML needs for its packages.
    func open() async {
        do {
            guard let folder = Bundle.main.url(forResource: "Kokoro", withExtension: nil) else { return said = "The app holds no folder named Kokoro." }
            let bundle = try SpeechBundle(at: folder)
            speaker = try Speaker(bundle: bundle, backend: try await CoreMLBackend(bundle: bundle))
            said = bundle.advisories.map(\.says).joined(separator: "\n")
            voices = bundle.voices
            voice = voices.first ?? ""
            engine.attach(player)
            engine.connect(player, to: engine.mainMixerNode, format: format)
            try engine.start()
        } catch { said = "\(error)" }
    }

    /// Speaks the text, or stops.
    func toggle() {
        if isSpeaking {
            task?.cancel()
            player.stop()
            isSpeaking = false
            return
        }
        guard let speaker else { return }
        isSpeaking = true
        player.play()
        let sequence = speaker.speak(text, voice: voice, speed: speed)
        task = Task {
            do {
                for try await audio in sequence {
                    said = audio.words.map(\.text).joined(separator: " ")
                    await play(audio.samples)
                }
            } catch is CancellationError {} catch { said = "\(error)" }
            isSpeaking = false
        }
    }

    /// Returns when the samples have been played, or were stopped.
    private func play(_ samples: [Float]) async {
        guard let buffer = buffer(samples) else { return }
        await withCheckedContinuation { heard in player.scheduleBuffer(buffer) { heard.resume() } }
    }

    private func buffer(_ samples: [Float]) -> AVAudioPCMBuffer? {
        guard let format, let buffer = AVAudioPCMBuffer(pcmFormat: format, frameCapacity: AVAudioFrameCount(samples.count)),
              let channel = buffer.floatChannelData?[0]
        else { return nil }
        samples.withUnsafeBufferPointer { source in
            if let base = source.baseAddress { channel.update(from: base, count: samples.count) }
        }
        buffer.frameLength = AVAudioFrameCount(samples.count)
        return buffer
    }
}

struct SpeakingScreen: View {
    @State private var speaking = Speaking()

    var body: some View {
        VStack(spacing: 16) {
            TextEditor(text: $speaking.text)
            Picker("Voice", selection: $speaking.voice) { ForEach(speaking.voices, id: \.self) { Text($0) } }
            Slider(value: $speaking.speed, in: 0.5...2) { Text("Speed") }
            Button(speaking.isSpeaking ? "Stop" : "Speak") { speaking.toggle() }.disabled(speaking.voices.isEmpty)
            Text(speaking.said).font(.footnote)
        }
        .padding()
        .task { await speaking.open() }
    }
}
#endif
