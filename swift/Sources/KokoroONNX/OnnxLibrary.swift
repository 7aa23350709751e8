import COnnxRuntime
import Kokoro
import KokoroSteps

#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

/// ONNX Runtime, linked into the app, or opened by name while the program runs: nothing of it is needed to build this package.
///
/// `@unchecked Sendable`: the tables and the environment are written once, here, and ONNX Runtime allows their use from any thread.
public final class OnnxLibrary: @unchecked Sendable {
    /// As "1.21.0".
    public let version: String
    let api: OnnxApi, environment: UnsafeMutableRawPointer
    private let handle: UnsafeMutableRawPointer?

    /// Of a library that is linked into the app, as Microsoft's is on iOS: `OnnxLibrary(linked: OrtGetApiBase)`, with the line
    /// `const void *OrtGetApiBase(void);` in the app's bridging header. Throws `backend` for one before 1.17.
    public convenience init(linked base: () -> UnsafeRawPointer?) throws(KokoroError) {
        guard let table = base() else { throw .backend("ONNX Runtime gave nothing") }
        try self.init(table, handle: nil)
    }

    /// Of a file, opened by name while the program runs. `path`: of libonnxruntime, or nil for the system's. Throws `backend` where there is none,
    /// or one before 1.17.
    public convenience init(path: String? = nil) throws(KokoroError) {
        let names = path.map { [$0] } ?? ["libonnxruntime.so.1", "libonnxruntime.so", "libonnxruntime.dylib"]
        guard let opened = names.lazy.compactMap({ dlopen($0, RTLD_NOW | RTLD_LOCAL) }).first else {
            throw .backend("no ONNX Runtime: \(dlerror().map { String(cString: $0) } ?? "not found")")
        }
        guard let symbol = dlsym(opened, "OrtGetApiBase") else { throw .backend("\(names[0]) is no ONNX Runtime") }
        guard let base = onnx_base(symbol) else { throw .backend("\(names[0]) gave nothing") }
        try self.init(base, handle: opened)
    }

    private init(_ base: UnsafeRawPointer, handle: UnsafeMutableRawPointer?) throws(KokoroError) {
        version = onnx_version(base).map { String(cString: $0) } ?? "?"
        guard let table = onnx_api(base) else { throw .backend("ONNX Runtime \(version) is too old: 1.17 or later") }
        self.handle = handle
        api = table
        environment = try made(table) { onnx_make_environment(table, $0) }
    }

    /// For a program's first line on Linux: tensors go back to the system when they are freed, where glibc would keep a heap for every thread.
    public static func returnMemoryToTheSystem() { onnx_return_memory() }

    deinit {
        onnx_release(api, ONNX_ENVIRONMENT, environment)
        if let handle { dlclose(handle) }
    }
}

/// Throws what ONNX Runtime says.
func checked(_ api: OnnxApi, _ status: OpaquePointer?) throws(KokoroError) {
    guard let status else { return }
    let words = onnx_message(api, status).map { String(cString: $0) } ?? "it gave no reason"
    onnx_release(api, ONNX_STATUS, UnsafeMutableRawPointer(status))
    throw .backend("ONNX Runtime: \(words)")
}

/// What a function writes through its argument.
func made(_ api: OnnxApi, _ make: (UnsafeMutablePointer<UnsafeMutableRawPointer?>) -> OpaquePointer?) throws(KokoroError) -> UnsafeMutableRawPointer {
    var found: UnsafeMutableRawPointer?
    try checked(api, make(&found))
    guard let found else { throw .backend("ONNX Runtime gave nothing") }
    return found
}
