import Kokoro
import SwiftUI

/// Time to the first sound, real-time factor, memory and compute units; and a file as `kokoro-ane device-report` writes it.
struct MeasureScreen: View {
    @State var speech: Speech
    @State private var lines: [String] = []
    @State private var isMeasuring = false
    @State private var report: URL?

    var body: some View {
        VStack(spacing: 16) {
            Button("Measure speech") { start(speak) }.disabled(isMeasuring || speech.kokoro == nil)
            Button("Measure every package, for minutes") { start(measurePackages) }.disabled(isMeasuring || speech.kokoro == nil)
            ForEach(lines, id: \.self) { Text($0) }
            if let report { ShareLink(item: report) { Text("Send device.json") } }
        }
        .padding()
    }

    private func start(_ work: @escaping @MainActor () async throws -> Void) {
        isMeasuring = true
        Task {
            do { try await work() } catch { speech.tell(error) }
            isMeasuring = false
        }
    }

    private func speak() async throws {
        guard let kokoro = speech.kokoro else { return }
        let clock = ContinuousClock(), started = clock.now
        var first: Duration?, samples = 0
        for try await piece in kokoro.speak(speech.text, voice: Voice(speech.voice)) {
            first = first ?? clock.now - started
            samples += piece.samples.count
        }
        let spent = (clock.now - started) / .seconds(1), seconds = Double(samples) / Double(SpokenAudio.sampleRateHz)
        lines = [
            "First sound after \(Int(1000 * ((first ?? .zero) / .seconds(1)))) ms", "Real-time factor \(spent / seconds)",
            "\(Int(DeviceReport.peakMiB)) MiB at most", kokoro.bundle.units.map { "\($0.key): \($0.value)" }.sorted().joined(separator: ", "),
        ]
    }

    private func measurePackages() async throws {
        guard let kokoro = speech.kokoro else { return }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("device.json")
        try await DeviceReport.measured(kokoro.bundle).write(to: file)
        report = file
    }
}
