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

/// ONNX Runtime, opened by name while the program runs: nothing of it is needed to build.
///
/// `@unchecked Sendable`: the tables and the environment are written once, here, and ONNX Runtime allows their use from any thread.
public final class OnnxLibrary: @unchecked Sendable {
    /// As "1.21.0".
    public let version: String
    let api: OnnxApi, environment: UnsafeMutableRawPointer
    private let handle: UnsafeMutableRawPointer

    /// `path`: of libonnxruntime, or nil for the system's. Throws `backend` where there is none, or one before 1.17.
    public init(path: String? = nil) throws(KokoroError) {
        let names = path.map { [$0] } ?? ["libonnxruntime.so.1", "libonnxruntime.so", "libonnxruntime.dylib"]
        guard let opened = names.lazy.compactMap({ dlopen($0, RTLD_NOW | RTLD_LOCAL) }).first else {
            throw .backend("no ONNX Runtime: \(dlerror().map { String(cString: $0) } ?? "not found")")
        }
        guard let symbol = dlsym(opened, "OrtGetApiBase") else { throw .backend("\(names[0]) is no ONNX Runtime") }
        version = onnx_version(symbol).map { String(cString: $0) } ?? "?"
        guard let table = onnx_api(symbol) else { throw .backend("ONNX Runtime \(version) is too old: 1.17 or later") }
        handle = opened
        api = table
        environment = try made(table) { onnx_make_environment(table, $0) }
    }

    /// For a program's first line on Linux: tensors go back to the system when they are freed, where glibc would keep a heap for every thread.
    public static func returnMemoryToTheSystem() { onnx_return_memory() }

    deinit {
        onnx_release(api, ONNX_ENVIRONMENT, environment)
        dlclose(handle)
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
