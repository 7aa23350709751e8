// swift-tools-version:6.0
import PackageDescription

// Core ML exists on Apple's systems only. KOKORO_CORE_ML_STAND_IN=1 puts a module of the same name and the same few declarations in its
// place, so that the code that calls it is compiled and run elsewhere too: Tests/CoreMLStandIn. The sample app is compiled in the same way.
let standIn = Context.environment["KOKORO_CORE_ML_STAND_IN"] == "1"
let coreML: [Target.Dependency] = standIn ? ["CoreML"] : []

let package = Package(
    name: "Kokoro",
    platforms: [.iOS(.v17), .macOS(.v14)],
    products: [
        .library(name: "Kokoro", targets: ["Kokoro", "KokoroSteps", "KokoroText"]),
        .library(name: "KokoroONNX", targets: ["KokoroONNX"]),
        .executable(name: "kokoro-speak", targets: ["kokoro-speak"]),
    ],
    targets: [
        .target(name: "KokoroSteps"),
        .target(name: "KokoroText", dependencies: ["KokoroSteps"]),
        .target(name: "Kokoro", dependencies: ["KokoroSteps", "KokoroText"] + coreML),
        .target(name: "KokoroVectors", dependencies: ["KokoroSteps"], path: "Tests/KokoroVectors"),
        .target(name: "COnnxRuntime"),
        .target(name: "KokoroONNX", dependencies: ["Kokoro", "KokoroSteps", "COnnxRuntime"]),
        .executableTarget(name: "kokoro-speak", dependencies: ["Kokoro", "KokoroONNX", "KokoroText"]),
        .testTarget(name: "KokoroStepsTests", dependencies: ["KokoroSteps", "KokoroVectors"]),
        .testTarget(name: "KokoroTextTests", dependencies: ["KokoroText"]),
        .testTarget(name: "KokoroTests", dependencies: ["Kokoro", "KokoroONNX", "KokoroVectors"]),
    ] + (standIn ? [
        .target(name: "CoreML", dependencies: ["KokoroVectors"], path: "Tests/CoreMLStandIn"),
        .target(name: "SwiftUI", path: "Tests/SampleStandIn/SwiftUI"),
        .target(name: "AVFoundation", path: "Tests/SampleStandIn/AVFoundation"),
        .target(name: "PageExamples", dependencies: ["Kokoro", "KokoroONNX"] + coreML, path: "Tests/PageExamples"),
        .target(name: "Sample", dependencies: ["Kokoro", "SwiftUI", "AVFoundation"], path: "Sample"),
    ] : []),
    swiftLanguageModes: [.v6]
)
