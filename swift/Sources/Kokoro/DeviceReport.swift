#if canImport(CoreML)
import CoreML
import Foundation
import KokoroSteps

/// Times of a bundle's packages on this device, in the file that `kokoro-ane device-report --read` takes. Nothing personal is in it.
///
/// Of every function and shape, for each choice of compute units: load time, three predictions to warm up, ten that are timed; or Core ML's
/// refusal. Nearness and placement are not measured here.
public struct DeviceReport: Encodable, Sendable {
    struct Timed: Encodable { let load_ms: Double, predict_ms: [Double] }
    struct Row: Encodable { let function: String, shapes: [String: [Int]]; var refused: String?, near_db: [String: Double] = [:], placement: [String: String] = [:], timings: [String: Timed] = [:] }
    struct Package: Encodable { let package: String, sha256: String, rows: [Row] }
    var format = 2, coremltools = ""
    let chip: String, system: String, peak_mib: Double, packages: [Package]

    private static let units: [(String, MLComputeUnits)] = [
        ("CPU_ONLY", .cpuOnly), ("CPU_AND_GPU", .cpuAndGPU), ("CPU_AND_NE", .cpuAndNeuralEngine), ("ALL", .all),
    ]

    /// Measures for minutes; a task that is cancelled ends it. Throws `KokoroError`.
    public static func measured(_ bundle: SpeechBundle) async throws -> DeviceReport {
        var packages: [Package] = []
        for part in bundle.manifest.encoder + [bundle.manifest.vocoder] {
            let file = bundle.folder.appendingPathComponent(part.package), inside = part.inputs.map { $0.keys.sorted() } ?? []
            let isOne = part.functions == nil && StreamingVocoder.outputs[inside.first ?? ""] == nil
            let compiled: URL
            do { compiled = try await MLModel.compileModel(at: file) } catch { throw CoreMLBackend.failure(part.package, error) }
            defer { try? FileManager.default.removeItem(at: compiled) }
            var rows: [Row] = []
            for function in isOne ? ["main"] : part.functions?.values.sorted() ?? inside { rows += try await self.rows(compiled, function) }
            packages.append(Package(package: file.lastPathComponent, sha256: part.packageSHA256, rows: rows))
        }
        let device = Device.current, version = device.version.map(String.init).joined(separator: ".")
        return DeviceReport(chip: device.chip.isEmpty ? device.machine : device.chip, system: "\(device.system) \(version)", peak_mib: peakMiB, packages: packages)
    }

    /// Throws `disk`.
    public func write(to file: URL) throws {
        do { try JSONEncoder().encode(self).write(to: file, options: .atomic) } catch { throw KokoroError(file, error) }
    }

    /// The most memory that this process has had.
    public static var peakMiB: Double {
        var usage = rusage()
        #if os(Linux)
        getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
        return Double(usage.ru_maxrss) / 1024
        #else
        getrusage(RUSAGE_SELF, &usage)
        return Double(usage.ru_maxrss) / 1_048_576
        #endif
    }

    private static func rows(_ compiled: URL, _ function: String) async throws -> [Row] {
        var rows: [[String: [Int]]: Row] = [:], order: [[String: [Int]]] = []
        for (name, units) in Self.units {
            try Task.checkCancellation()
            let configuration = MLModelConfiguration(), clock = ContinuousClock()
            configuration.computeUnits = units
            if function != "main", #available(iOS 18, macOS 15, tvOS 18, watchOS 11, visionOS 2, *) { configuration.functionName = function }
            let started = clock.now, model: MLModel
            do { model = try await MLModel.load(contentsOf: compiled, configuration: configuration) } catch { throw CoreMLBackend.failure(function, error) }
            let load = (clock.now - started) / .milliseconds(1)
            for shapes in self.shapes(model) {
                if rows[shapes] == nil { order.append(shapes) }
                var row = rows[shapes] ?? Row(function: function, shapes: shapes)
                do {
                    let inputs = try zeros(model, shapes)
                    var times: [Double] = []
                    for _ in 0..<13 {
                        let begun = clock.now
                        _ = try model.prediction(from: inputs)
                        times.append((clock.now - begun) / .milliseconds(1))
                    }
                    row.timings[name] = Timed(load_ms: load, predict_ms: Array(times.dropFirst(3)))
                } catch { row.refused = String("\(name): \(error.localizedDescription)".prefix(300)) }
                rows[shapes] = row
            }
        }
        return order.compactMap { rows[$0] }
    }

    /// Of all inputs, one for each shape that one of them may have.
    private static func shapes(_ model: MLModel) -> [[String: [Int]]] {
        var plain: [String: [Int]] = [:], many: (name: String, shapes: [[Int]])?
        for (name, described) in model.modelDescription.inputDescriptionsByName {
            guard let constraint = described.multiArrayConstraint else { continue }
            plain[name] = constraint.shape.map(\.intValue)
            if constraint.shapeConstraint.type == .enumerated { many = (name, constraint.shapeConstraint.enumeratedShapes.map { $0.map(\.intValue) }) }
        }
        guard let many else { return [plain] }
        return many.shapes.map { shape in plain.merging([many.name: shape]) { $1 } }
    }

    private static func zeros(_ model: MLModel, _ shapes: [String: [Int]]) throws -> MLDictionaryFeatureProvider {
        var arrays: [String: Any] = [:]
        for (name, shape) in shapes {
            guard let kind = model.modelDescription.inputDescriptionsByName[name]?.multiArrayConstraint?.dataType else { continue }
            let input = CoreMLInput(shape: shape, values: [Float](repeating: 0, count: shape.reduce(1, *)))
            arrays[name] = MLFeatureValue(multiArray: try input.array(of: kind))
        }
        return try MLDictionaryFeatureProvider(dictionary: arrays)
    }
}
#endif
