import COnnxRuntime
import Kokoro
import KokoroSteps

/// One .onnx file, computed by the processor.
///
/// `@unchecked Sendable`: the session is not changed after `init`, and ONNX Runtime allows `Run` on one session from several threads.
final class OnnxProgram: @unchecked Sendable {
    private let library: OnnxLibrary, session: UnsafeMutableRawPointer, memory: UnsafeMutableRawPointer
    private let outputs: [String]

    init(_ library: OnnxLibrary, file: String, outputs: [String], threads: Int32) throws(KokoroError) {
        let api = library.api
        let options = try made(api) { onnx_make_options(api, threads, $0) }
        defer { onnx_release(api, ONNX_OPTIONS, options) }
        session = try made(api) { onnx_open(api, library.environment, file, options, $0) }
        memory = try made(api) { onnx_make_memory(api, $0) }
        self.library = library
        self.outputs = outputs
    }

    deinit {
        onnx_release(library.api, ONNX_SESSION, session)
        onnx_release(library.api, ONNX_MEMORY, memory)
    }

    /// Named inputs to the outputs, in the order that `init` was given.
    func callAsFunction(_ inputs: [(name: String, value: OnnxInput)]) throws(KokoroError) -> [Tensor] {
        let api = library.api
        var values: [UnsafeMutableRawPointer?] = [], found = [UnsafeMutableRawPointer?](repeating: nil, count: outputs.count)
        defer { (values + found).forEach { onnx_release(api, ONNX_VALUE, $0) } }
        for (_, value) in inputs { values.append(try value.made(api, memory)) }
        let names = (inputs.map(\.name) + outputs).map { ContiguousArray($0.utf8CString) }
        let status = withPointers(names) { pointers in
            onnx_run(api, session, pointers, values, inputs.count, pointers + inputs.count, outputs.count, &found)
        }
        try checked(api, status)
        var tensors: [Tensor] = []
        for (name, value) in zip(outputs, found) { tensors.append(try tensor(name, value)) }
        return tensors
    }

    private func tensor(_ name: String, _ value: UnsafeMutableRawPointer?) throws(KokoroError) -> Tensor {
        var data: UnsafeMutableRawPointer?, kind: Int32 = 0, rank = 0, room = [Int64](repeating: 0, count: 8)
        try checked(library.api, onnx_look(library.api, value, &data, &kind, &rank, &room, room.count))
        guard kind == Int32(ONNX_FLOAT), let data, rank <= room.count else { throw .backend("\(name) is not of float32 and rank 8 or less") }
        let shape = room.prefix(rank), count = shape.reduce(1) { $0 * Int($1) }
        let values = Array(UnsafeBufferPointer(start: data.assumingMemoryBound(to: Float.self), count: count))
        return try Tensor(name, shape: shape.map { Int($0) }, values: values)
    }
}

/// The pointers of C strings, valid while `body` runs.
private func withPointers<Found>(_ strings: [ContiguousArray<CChar>], _ body: (UnsafePointer<UnsafePointer<CChar>?>) -> Found) -> Found {
    var bytes: [CChar] = [], starts: [Int] = []
    for string in strings {
        starts.append(bytes.count)
        bytes += string
    }
    return bytes.withUnsafeBufferPointer { all in
        let pointers = starts.map { start in all.baseAddress.map { $0 + start } }
        return body(pointers)
    }
}

/// An input, in memory that lies still.
final class OnnxInput {
    private let data: UnsafeMutableRawBufferPointer, shape: [Int64], kind: Int32

    init(_ tensor: Tensor) {
        data = Self.copied(tensor.values)
        shape = tensor.shape.map { Int64($0) }
        kind = Int32(ONNX_FLOAT)
    }

    init(ids: [Int32]) {
        data = Self.copied(ids)
        shape = [1, Int64(ids.count)]
        kind = Int32(ONNX_INT32)
    }

    deinit { data.deallocate() }

    private static func copied<Value>(_ values: [Value]) -> UnsafeMutableRawBufferPointer {
        values.withUnsafeBytes { bytes in
            let room = UnsafeMutableRawBufferPointer.allocate(byteCount: max(bytes.count, 1), alignment: 64)
            room.copyMemory(from: bytes)
            return room
        }
    }

    func made(_ api: OnnxApi, _ memory: UnsafeMutableRawPointer) throws(KokoroError) -> UnsafeMutableRawPointer {
        try KokoroONNX.made(api) { onnx_make_value(api, memory, data.baseAddress, data.count, shape, shape.count, kind, $0) }
    }
}
