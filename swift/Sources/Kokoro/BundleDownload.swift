import Foundation
import KokoroSteps

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

extension Kokoro {
    /// How far a bundle has come.
    public struct Download: Sendable {
        /// Of the bundle's files, and the one that comes now.
        public let files: Int, of: Int, file: String
        /// Bytes that have come by this call.
        public let bytes: Int
        public var fraction: Double { of == 0 ? 0 : Double(files) / Double(of) }
    }

    /// Fetches a bundle as a folder of files, from any server that gives what `kokoro-ane bundle` wrote.
    ///
    /// `SHA256SUMS` names the files; each is compared with its hash. `folder` appears, or is replaced, when all of them are there; until then they lie
    /// beside it in `.NAME.partial`, where the next call goes on. Throws `network`, `badFile` for wrong bytes, `disk`, `CancellationError`.
    public static func download(from server: URL, to folder: URL) -> AsyncThrowingStream<Download, any Error> {
        AsyncThrowingStream { progress in
            let task = Task {
                do {
                    try await BundleDownload(server: server, folder: folder) { progress.yield($0) }.run()
                    progress.finish()
                } catch { progress.finish(throwing: error) }
            }
            progress.onTermination = { _ in task.cancel() }
        }
    }
}

private struct BundleDownload {
    private static let sums = "SHA256SUMS", mostSums = 1 << 20
    let server: URL, folder: URL, tell: @Sendable (Kokoro.Download) -> Void
    private var aside: URL { folder.deletingLastPathComponent().appendingPathComponent(".\(folder.lastPathComponent).partial", isDirectory: true) }
    private var old: URL { aside.deletingPathExtension().appendingPathExtension("old") }
    private let files = FileManager.default

    init(server: URL, folder: URL, tell: @escaping @Sendable (Kokoro.Download) -> Void) { (self.server, self.folder, self.tell) = (server, folder, tell) }

    func run() async throws {
        if files.fileExists(atPath: old.path) {
            try attempt(folder) { if files.fileExists(atPath: folder.path) { try files.removeItem(at: old) } else { try files.moveItem(at: old, to: folder) } }
        }
        try attempt(aside) { try files.createDirectory(at: aside, withIntermediateDirectories: true) }
        let list = aside.appendingPathComponent(Self.sums)
        try? files.removeItem(at: list)
        try await fetch(Self.sums, to: list, from: 0) { _ in }
        let text = try attempt(list) { try Data(contentsOf: list) }, hashes = try Self.hashes(text)
        if (try? Data(contentsOf: folder.appendingPathComponent(Self.sums))) == text { return try attempt(aside) { try files.removeItem(at: aside) } }
        var bytes = 0
        for (place, (name, hash)) in hashes.enumerated() {
            try await fetch(name, hash) { more in
                bytes += more
                tell(Kokoro.Download(files: place, of: hashes.count, file: name, bytes: bytes))
            }
        }
        tell(Kokoro.Download(files: hashes.count, of: hashes.count, file: "", bytes: bytes))
        try attempt(folder) {
            // two renames: between them the old bundle has another name, under which a later call finds and puts it back
            if files.fileExists(atPath: folder.path) { try files.moveItem(at: folder, to: old) }
            try files.moveItem(at: aside, to: folder)
        }
        try? files.removeItem(at: old)
    }

    /// A file with its right hash in the folder aside. What came in pieces and is wrong is fetched once more from its begin.
    private func fetch(_ name: String, _ hash: String, _ came: (Int) -> Void) async throws {
        let file = aside.appendingPathComponent(name), part = aside.appendingPathComponent("\(name).part")
        if (try? SHA256.hash(of: file)) == hash { return came(0) }
        try attempt(file) { try files.createDirectory(at: file.deletingLastPathComponent(), withIntermediateDirectories: true) }
        for _ in 0..<2 {
            let begun = ((try? files.attributesOfItem(atPath: part.path))?[.size] as? Int) ?? 0
            try await fetch(name, to: part, from: begun, came)
            if try SHA256.hash(of: part) == hash {
                return try attempt(file) {
                    if files.fileExists(atPath: file.path) { try files.removeItem(at: file) }
                    try files.moveItem(at: part, to: file)
                }
            }
            try? files.removeItem(at: part)
            if begun == 0 { break }
        }
        throw KokoroError.badFile(name, reason: "the server's bytes have another hash than \(Self.sums) says")
    }

    /// Bytes from a place on, behind those that are there.
    private func fetch(_ name: String, to file: URL, from begun: Int, _ came: (Int) -> Void) async throws {
        try Task.checkCancellation()
        var request = URLRequest(url: server.appendingPathComponent(name))
        if begun > 0 { request.setValue("bytes=\(begun)-", forHTTPHeaderField: "Range") }
        var handle: FileHandle?
        defer { try? handle?.close() }
        for try await event in ServerAnswer.events(request) {
            switch event {
            case .head(let status) where status == 416 && begun > 0: return  // all of it was there
            case .head(let status):
                guard status == 200 || status == 206 else { throw KokoroError.network(name, reason: "the server says \(status)") }
                handle = try attempt(file) {
                    if !files.fileExists(atPath: file.path) { try Data().write(to: file) }
                    let opened = try FileHandle(forWritingTo: file)
                    if status == 206 { try opened.seekToEnd() } else { try opened.truncate(atOffset: 0) }
                    return opened
                }
            case .body(let data):
                try attempt(file) { try handle?.write(contentsOf: data) }
                came(data.count)
                if name == Self.sums, data.count > Self.mostSums { throw KokoroError.badFile(name, reason: "too long for a list of files") }
            case .failed(let words): throw KokoroError.network(name, reason: words)
            }
        }
        try Task.checkCancellation()
    }

    @discardableResult private func attempt<Made>(_ file: URL, _ body: () throws -> Made) throws(KokoroError) -> Made {
        do { return try body() } catch { throw KokoroError(file, error) }
    }

    /// Names and hashes of a list as sha256sum writes it. Throws `badFile` for another, or a name that leads elsewhere.
    private static func hashes(_ list: Data) throws(KokoroError) -> [(name: String, hash: String)] {
        var found: [(String, String)] = []
        for line in String(decoding: list, as: UTF8.self).split(separator: "\n") {
            let hash = line.prefix(64), name = String(line.dropFirst(66)), parts = name.split(separator: "/", omittingEmptySubsequences: false)
            guard hash.count == 64, hash.allSatisfy(\.isHexDigit), line.dropFirst(64).hasPrefix("  "), !name.hasSuffix(".part"), name != sums,
                parts.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }), !name.contains("\\")
            else { throw .badFile(sums, reason: "no list of a bundle's files") }
            found.append((name, String(hash)))
        }
        guard found.contains(where: { $0.0 == "manifest.json" }) else { throw .badFile(sums, reason: "it names no manifest.json") }
        return found
    }
}

/// What a server answers, piece by piece: URLSession's delegate, because Linux has no sequence of bytes.
private final class ServerAnswer: NSObject, URLSessionDataDelegate {
    enum Event: Sendable { case head(Int), body(Data), failed(String) }
    private let events: AsyncStream<Event>.Continuation
    private init(_ events: AsyncStream<Event>.Continuation) { self.events = events }

    static func events(_ request: URLRequest) -> AsyncStream<Event> {
        AsyncStream { events in
            let session = URLSession(configuration: .ephemeral, delegate: ServerAnswer(events), delegateQueue: nil)
            let task = session.dataTask(with: request)
            events.onTermination = { _ in task.cancel() }
            task.resume()
            session.finishTasksAndInvalidate()
        }
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive response: URLResponse, completionHandler: @escaping @Sendable (URLSession.ResponseDisposition) -> Void) {
        events.yield(.head((response as? HTTPURLResponse)?.statusCode ?? 0))
        completionHandler(.allow)
    }

    func urlSession(_ session: URLSession, dataTask: URLSessionDataTask, didReceive data: Data) { events.yield(.body(data)) }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        if let error { events.yield(.failed(error.localizedDescription)) }
        events.finish()
    }
}
