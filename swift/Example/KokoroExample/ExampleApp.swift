import Kokoro
import SwiftUI

/// Speaks a text and measures. The bundle lies in the app as the folder `Kokoro`.
@main struct ExampleApp: App {
    @State private var speech = Speech()

    var body: some Scene {
        WindowGroup {
            TabView {
                SpeakScreen(speech: speech).tabItem { Text("Speak") }
                MeasureScreen(speech: speech).tabItem { Text("Measure") }
            }
            .task { await speech.open() }
        }
    }
}

/// What the screens show, and who speaks.
@MainActor @Observable final class Speech {
    var text = "Dr. Smith paid $3.50 at 5:30 pm. Nobody saw it."
    var voice = ""
    private(set) var kokoro: Kokoro?
    private(set) var state = "Opening"
    private(set) var isSpeaking = false
    /// The word that is heard.
    private(set) var word: Range<String.Index>?
    private var task: Task<Void, Never>?

    static let bundle = Bundle.main.url(forResource: "Kokoro", withExtension: nil)

    /// Opens the bundle. The first start on a device compiles its packages, which takes long.
    func open() async {
        guard let bundle = Self.bundle else {
            state = "The app holds no folder named Kokoro."
            return
        }
        do {
            for try await step in Kokoro.load(bundle: bundle) {
                switch step {
                case .checking: state = "Checking files"
                case .compiling(let package): state = "Compiling \(package), once"
                case .opening(let function): state = "Opening \(function)"
                case .ready(let opened):
                    kokoro = opened
                    voice = opened.voices.first?.name ?? ""
                    state = opened.bundle.advisories.map(\.says).joined(separator: "\n")
                }
            }
        } catch { tell(error) }
    }

    /// Voices of a language.
    func voices(_ language: Voice.Language) -> [String] { kokoro?.voices.filter { $0.language == language }.map(\.name) ?? [] }

    func toggle() {
        let before = task
        task?.cancel()
        task = nil
        if isSpeaking {
            isSpeaking = false
            return
        }
        guard let kokoro else { return }
        isSpeaking = true
        let (text, voice) = (text, Voice(voice))
        task = Task {
            await before?.value
            do {
                try await kokoro.play(text, voice: voice) { word in
                    Task { @MainActor in self.word = word.range }
                }
            } catch is CancellationError {} catch { tell(error) }
            word = nil
            isSpeaking = false
        }
    }

    func tell(_ error: any Error) {
        let error = error as? KokoroError
        state = "\(error?.description ?? "It failed.") \(error?.recovery ?? "")"
    }
}

struct SpeakScreen: View {
    @State var speech: Speech

    var body: some View {
        VStack(spacing: 16) {
            if speech.isSpeaking { marked } else { TextEditor(text: $speech.text) }
            Picker("Voice", selection: $speech.voice) {
                ForEach(Voice.Language.allCases, id: \.self) { language in
                    Section(language.rawValue) { ForEach(speech.voices(language), id: \.self) { Text($0) } }
                }
            }
            Button(speech.isSpeaking ? "Stop" : "Speak") { speech.toggle() }.disabled(speech.kokoro == nil)
            Text(speech.state).font(.footnote)
        }
        .padding()
    }

    /// The text with the word that is heard.
    private var marked: Text {
        let text = speech.text
        guard let word = speech.word, word.upperBound <= text.endIndex else { return Text(text) }
        return Text(text[..<word.lowerBound]) + Text(text[word]).bold() + Text(text[word.upperBound...])
    }
}
