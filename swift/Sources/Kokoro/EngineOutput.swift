import KokoroSteps

#if canImport(AVFoundation)
import AVFoundation

/// AVAudioEngine with one player, and the audio session around it.
final class EngineOutput: SpeechOutput {
    private let engine = AVAudioEngine(), node = AVAudioPlayerNode(), format: AVAudioFormat
    private var observers: [any NSObjectProtocol] = []

    init() throws(KokoroError) {
        guard let format = AVAudioFormat(standardFormatWithSampleRate: Double(Contract.sampleRateHz), channels: 1) else { throw .audio("no format of 24 kHz") }
        self.format = format
        engine.attach(node)
    }

    deinit { observers.forEach(NotificationCenter.default.removeObserver) }

    func start(changed: @escaping @Sendable (OutputChange) -> Void) throws {
        listen(changed)
        do {
            #if !os(macOS)
            // `.playback` is heard with the mute switch on
            try AVAudioSession.sharedInstance().setCategory(.playback, mode: .spokenAudio)
            try AVAudioSession.sharedInstance().setActive(true)
            #endif
            engine.connect(node, to: engine.mainMixerNode, format: format)
            try engine.start()
        } catch { throw KokoroError.audio(error.localizedDescription) }
    }

    private func listen(_ changed: @escaping @Sendable (OutputChange) -> Void) {
        let center = NotificationCenter.default
        observers.forEach(center.removeObserver)
        observers = [center.addObserver(forName: .AVAudioEngineConfigurationChange, object: engine, queue: nil) { _ in changed(.reconfigured) }]
        #if !os(macOS)
        observers.append(center.addObserver(forName: AVAudioSession.interruptionNotification, object: nil, queue: nil) { note in
            let kind = (note.userInfo?[AVAudioSessionInterruptionTypeKey] as? UInt).flatMap(AVAudioSession.InterruptionType.init)
            changed(kind == .ended ? .resumed : .interrupted)
        })
        #endif
    }

    func schedule(_ samples: ArraySlice<Float>, heard: @escaping @Sendable () -> Void) {
        guard let buffer = AVAudioPCMBuffer(pcmFormat: format, frameCapacity: AVAudioFrameCount(samples.count)), let channel = buffer.floatChannelData?[0]
        else { return heard() }
        samples.withUnsafeBufferPointer { source in if let base = source.baseAddress { channel.update(from: base, count: samples.count) } }
        buffer.frameLength = AVAudioFrameCount(samples.count)
        node.scheduleBuffer(buffer, completionCallbackType: .dataPlayedBack) { _ in heard() }
    }

    func play() { node.play() }
    func pause() { node.pause() }

    func stop() {
        node.stop()
        engine.stop()
    }

    var heardSamples: Int? {
        guard let rendered = node.lastRenderTime, let time = node.playerTime(forNodeTime: rendered) else { return nil }
        return max(0, Int(time.sampleTime))
    }
}
#endif

extension SpeechPlayer {
    /// AVAudioEngine; `audio` where there is none.
    @Sendable package static func systemOutput() throws -> any SpeechOutput {
        #if canImport(AVFoundation)
        return try EngineOutput()
        #else
        throw KokoroError.audio("this system has no AVAudioEngine: play the samples of `speak`")
        #endif
    }
}
