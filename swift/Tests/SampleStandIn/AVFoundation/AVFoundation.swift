// The declarations of AVFAudio that the sample app uses, by Apple's documentation (developer.apple.com/documentation/avfaudio). They are
// not Sendable, as far as the documentation says, and make no sound.
@_exported import Foundation

public typealias AVAudioFrameCount = UInt32
public typealias AVAudioChannelCount = UInt32

public class AVAudioFormat: NSObject {
    public init?(standardFormatWithSampleRate sampleRate: Double, channels: AVAudioChannelCount) {}
}
public class AVAudioPCMBuffer: NSObject {
    public var frameLength: AVAudioFrameCount = 0
    public var floatChannelData: UnsafePointer<UnsafeMutablePointer<Float>>? { nil }
    public init?(pcmFormat format: AVAudioFormat, frameCapacity: AVAudioFrameCount) {}
}
public class AVAudioNode: NSObject {}
public class AVAudioMixerNode: AVAudioNode {}
public class AVAudioPlayerNode: AVAudioNode {
    public func play() {}
    public func stop() {}
    public func scheduleBuffer(_ buffer: AVAudioPCMBuffer, completionHandler: (@Sendable () -> Void)? = nil) { completionHandler?() }
    public func scheduleBuffer(_ buffer: AVAudioPCMBuffer) async {}
}
public class AVAudioEngine: NSObject {
    public let mainMixerNode = AVAudioMixerNode()
    public func attach(_ node: AVAudioNode) {}
    public func connect(_ node1: AVAudioNode, to node2: AVAudioNode, format: AVAudioFormat?) {}
    public func start() throws {}
}
