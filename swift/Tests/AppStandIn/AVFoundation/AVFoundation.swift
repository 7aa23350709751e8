// The declarations of AVFAudio that the player uses, by Apple's documentation (developer.apple.com/documentation/avfaudio). They are
// not Sendable, as far as the documentation says, and make no sound.
@_exported import Foundation

public typealias AVAudioFrameCount = UInt32
public typealias AVAudioChannelCount = UInt32
public typealias AVAudioFramePosition = Int64

public class AVAudioFormat: NSObject {
    public init?(standardFormatWithSampleRate sampleRate: Double, channels: AVAudioChannelCount) {}
}
public class AVAudioPCMBuffer: NSObject {
    public var frameLength: AVAudioFrameCount = 0
    public var floatChannelData: UnsafePointer<UnsafeMutablePointer<Float>>? { nil }
    public init?(pcmFormat format: AVAudioFormat, frameCapacity: AVAudioFrameCount) {}
}
public class AVAudioTime: NSObject {
    public var sampleTime: AVAudioFramePosition { 0 }
}
public class AVAudioNode: NSObject {
    public var lastRenderTime: AVAudioTime? { nil }
}
public class AVAudioMixerNode: AVAudioNode {}
public enum AVAudioPlayerNodeCompletionCallbackType: Int, Sendable { case dataConsumed = 0, dataRendered = 1, dataPlayedBack = 2 }
public typealias AVAudioPlayerNodeCompletionHandler = @Sendable (AVAudioPlayerNodeCompletionCallbackType) -> Void
public class AVAudioPlayerNode: AVAudioNode {
    public func play() {}
    public func pause() {}
    public func stop() {}
    public func playerTime(forNodeTime nodeTime: AVAudioTime) -> AVAudioTime? { nil }
    public func scheduleBuffer(
        _ buffer: AVAudioPCMBuffer, completionCallbackType callbackType: AVAudioPlayerNodeCompletionCallbackType,
        completionHandler: AVAudioPlayerNodeCompletionHandler? = nil
    ) { completionHandler?(callbackType) }
}
public class AVAudioEngine: NSObject {
    public let mainMixerNode = AVAudioMixerNode()
    public func attach(_ node: AVAudioNode) {}
    public func connect(_ node1: AVAudioNode, to node2: AVAudioNode, format: AVAudioFormat?) {}
    public func start() throws {}
    public func stop() {}
}
extension Notification.Name {
    public static let AVAudioEngineConfigurationChange = Notification.Name("AVAudioEngineConfigurationChangeNotification")
}
public let AVAudioSessionInterruptionTypeKey = "AVAudioSessionInterruptionTypeKey"
public class AVAudioSession: NSObject {
    public struct Category: Sendable { public static let playback = Category() }
    public struct Mode: Sendable { public static let spokenAudio = Mode() }
    public enum InterruptionType: UInt, Sendable { case ended = 0, began = 1 }
    public static let interruptionNotification = Notification.Name("AVAudioSessionInterruptionNotification")
    public class func sharedInstance() -> AVAudioSession { AVAudioSession() }
    public func setCategory(_ category: Category, mode: Mode) throws {}
    public func setActive(_ active: Bool) throws {}
}
