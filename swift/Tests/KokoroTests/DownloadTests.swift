import Foundation
@testable import Kokoro
import Synchronization
import Testing

#if canImport(Glibc)
import Glibc
#endif

/// A server of files on this machine, which cuts connections, spoils bytes, or gives no ranges.
final class LoopbackServer: Sendable {
    struct Faults {
        /// Of a name: bytes after which the connection is cut, once.
        var cuts: [String: Int] = [:], wrong: Set<String> = [], missing: Set<String> = [], givesRanges = true
    }
    let port: UInt16, faults = Mutex(Faults()), asked = Mutex([String]())
    private let folder: URL, handle: Int32
    var url: URL { get throws { try #require(URL(string: "http://127.0.0.1:\(port)/bundle")) } }

    init(_ folder: URL) throws {
        self.folder = folder
        #if os(Linux)
        let opened = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        #else
        let opened = socket(AF_INET, SOCK_STREAM, 0)
        #endif
        var address = sockaddr_in(), length = socklen_t(MemoryLayout<sockaddr_in>.size)
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(opened, $0, length) == 0 && listen(opened, 8) == 0 && getsockname(opened, $0, &length) == 0 }
        }
        try #require(isBound)
        (handle, port) = (opened, UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in
            while case let connection = accept(handle, nil, nil), connection >= 0 { Thread.detachNewThread { [self] in answer(connection) } }
        }
    }

    func stop() {
        shutdown(handle, Int32(SHUT_RDWR))
        close(handle)
    }

    private func answer(_ connection: Int32) {
        defer { close(connection) }
        var text = "", bytes = [UInt8](repeating: 0, count: 4096)
        while !text.contains("\r\n\r\n") {
            let count = read(connection, &bytes, bytes.count)
            guard count > 0 else { return }
            text += String(decoding: bytes.prefix(count), as: UTF8.self)
        }
        let name = String(text.split(separator: " ")[1].dropFirst("/bundle/".count)).removingPercentEncoding ?? ""
        asked.withLock { $0.append(name) }
        let (cut, isWrong, isMissing, givesRanges) = faults.withLock { ($0.cuts.removeValue(forKey: name), $0.wrong.contains(name), $0.missing.contains(name), $0.givesRanges) }
        guard !isMissing, var data = try? Data(contentsOf: folder.appendingPathComponent(name)) else { return send(connection, Data("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)) }
        if isWrong, !data.isEmpty { data[data.count / 2] ^= 1 }
        var status = "200 OK"
        if givesRanges, let range = text.split(separator: "\r\n").first(where: { $0.lowercased().hasPrefix("range:") }), let from = Int(range.filter(\.isNumber)) {
            if from >= data.count { return send(connection, Data("HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)) }
            (status, data) = ("206 Partial Content", Data(data.dropFirst(from)))
        }
        send(connection, Data("HTTP/1.1 \(status)\r\nContent-Length: \(data.count)\r\nConnection: close\r\n\r\n".utf8) + data.prefix(cut ?? data.count))
    }

    private func send(_ connection: Int32, _ data: Data) {
        var rest = [UInt8](data)[...]
        while !rest.isEmpty {
            #if os(Linux)
            let count = rest.withUnsafeBytes { Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            #else
            let count = rest.withUnsafeBytes { write(connection, $0.baseAddress, $0.count) }
            #endif
            guard count > 0 else { return }
            rest = rest.dropFirst(count)
        }
    }
}

/// A bundle that is fetched: whole, or not there.
@Suite(.serialized) struct DownloadTests {
    private let bundle: URL, server: LoopbackServer, place: URL, target: URL

    init() throws {
        bundle = try TestBundles.folder("KOKORO_BUNDLE")
        server = try LoopbackServer(bundle)
        place = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString, isDirectory: true)
        try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
        target = place.appendingPathComponent("Kokoro", isDirectory: true)
    }

    @discardableResult private func fetch() async throws -> [Kokoro.Download] {
        var steps: [Kokoro.Download] = []
        for try await step in Kokoro.download(from: try server.url, to: target) { steps.append(step) }
        return steps
    }

    private var names: [String] { get throws { try FileManager.default.contentsOfDirectory(atPath: place.path).sorted() } }

    private func end() {
        server.stop()
        try? FileManager.default.removeItem(at: place)
    }

    @Test func aBundleComesWholeAndOnce() async throws {
        defer { end() }
        let steps = try await fetch(), last = try #require(steps.last)
        #expect(last.fraction == 1 && last.files == last.of && last.bytes > 20_000_000 && steps.count > last.of)
        #expect(zip(steps, steps.dropFirst()).allSatisfy { $0.bytes <= $1.bytes && $0.fraction <= $1.fraction })
        #expect(try names == ["Kokoro"] && SpeechBundle(at: target).voices == ["awb", "rms", "slt"])
        server.asked.withLock { $0 = [] }
        try await fetch()
        #expect(server.asked.withLock { $0 } == ["SHA256SUMS"])
    }

    @Test(arguments: [true, false]) func aCutConnectionIsAnErrorAndTheNextCallGoesOn(givesRanges: Bool) async throws {
        defer { end() }
        server.faults.withLock { $0.cuts["text/us.bin"] = 700_000; $0.givesRanges = givesRanges }
        await #expect(throws: KokoroError.self) { try await fetch() }
        #expect(try names == [".Kokoro.partial"])
        server.asked.withLock { $0 = [] }
        let steps = try await fetch(), asked = server.asked.withLock { $0 }
        #expect(asked.contains("text/us.bin") && !asked.contains("LICENSES.md"))
        // 2,000,192 bytes are in that file
        let came = steps.last { $0.file == "text/us.bin" }.map(\.bytes), before = steps.last { $0.file < "text/us.bin" && $0.file != "" }.map(\.bytes)
        #expect(try #require(came) - #require(before) == (givesRanges ? 1_300_192 : 2_000_192))
        #expect(try SpeechBundle(at: target).voices.count == 3)
    }

    @Test func wrongBytesAreNeverABundle() async throws {
        defer { end() }
        server.faults.withLock { _ = $0.wrong.insert("voices/rms.style") }
        await #expect(throws: KokoroError.badFile("voices/rms.style", reason: "the server's bytes have another hash than SHA256SUMS says")) { try await fetch() }
        #expect(!FileManager.default.fileExists(atPath: target.path))
        server.faults.withLock { $0.wrong = [] }
        try await fetch()
        #expect(try SpeechBundle(at: target).voices.count == 3)
    }

    @Test func aServerWithoutAFileAndOneThatIsNotThereAreErrors() async throws {
        server.faults.withLock { _ = $0.missing.insert("vocabulary.json") }
        await #expect(throws: KokoroError.network("vocabulary.json", reason: "the server says 404")) { try await fetch() }
        server.stop()
        try await Task.sleep(for: .milliseconds(50))
        await #expect(throws: KokoroError.self) { try await fetch() }
        #expect(!FileManager.default.fileExists(atPath: target.path))
        try FileManager.default.removeItem(at: place)
    }

    /// /dev/full takes nothing, as a disk without space.
    @Test func aFullDiskIsToldAndLeavesNoBundle() async throws {
        defer { end() }
        guard FileManager.default.fileExists(atPath: "/dev/full") else { return }
        let aside = place.appendingPathComponent(".Kokoro.partial/voices", isDirectory: true), part = aside.appendingPathComponent("rms.style.part")
        try FileManager.default.createDirectory(at: aside, withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(at: part, withDestinationURL: URL(fileURLWithPath: "/dev/full"))
        do {
            try await fetch()
            Issue.record("a full disk was no error")
        } catch KokoroError.disk(let file, let reason) { #expect(file == "rms.style.part" && reason.contains("space"), "\(reason)") }
        #expect(!FileManager.default.fileExists(atPath: target.path))
    }

    @Test func anOldBundleIsReplacedWhole() async throws {
        defer { end() }
        try FileManager.default.createDirectory(at: target, withIntermediateDirectories: true)
        try Data("old".utf8).write(to: target.appendingPathComponent("SHA256SUMS"))
        try Data("old".utf8).write(to: target.appendingPathComponent("left.txt"))
        try await fetch()
        #expect(try names == ["Kokoro"] && !FileManager.default.fileExists(atPath: target.appendingPathComponent("left.txt").path))
        // as a phone whose battery ended between the two renames
        try FileManager.default.moveItem(at: target, to: place.appendingPathComponent(".Kokoro.old"))
        server.asked.withLock { $0 = [] }
        try await fetch()
        #expect(try names == ["Kokoro"] && server.asked.withLock { $0 } == ["SHA256SUMS"])
    }

    @Test(arguments: ["../../x", "/etc/x", "a//b", "manifest.json.part", "a\\b"]) func aNameThatLeadsElsewhereIsRefused(name: String) async throws {
        let other = place.appendingPathComponent("server", isDirectory: true), hash = String(repeating: "0", count: 64)
        try FileManager.default.createDirectory(at: other, withIntermediateDirectories: true)
        try Data("\(hash)  manifest.json\n\(hash)  \(name)\n".utf8).write(to: other.appendingPathComponent("SHA256SUMS"))
        let bad = try LoopbackServer(other), url = try bad.url
        defer {
            bad.stop()
            end()
        }
        await #expect(throws: KokoroError.badFile("SHA256SUMS", reason: "no list of a bundle's files")) { for try await _ in Kokoro.download(from: url, to: target) {} }
    }
}
