// swift-tools-version:6.0
import PackageDescription

// The manifest stands at the root, where Xcode and SwiftPM look for it when the package is added by the repository's address. Its sources stand in
// swift/.

// Core ML and AVFAudio exist on Apple's systems only. KOKORO_CORE_ML_STAND_IN=1 puts modules of the same name and the same few declarations
// in their place, so that the code that calls them is compiled and run elsewhere too. The example app is compiled in the same way.
let standIn = Context.environment["KOKORO_CORE_ML_STAND_IN"] == "1"
let apple: [Target.Dependency] = standIn ? ["CoreML", "AVFoundation"] : []

// Debug builds are optimized too: without, text is read 60 times slower. SwiftPM refuses such flags in a package that is taken by version
// from a repository, which it keeps in a folder named checkouts, and takes them in one that lies beside the app.
let isCheckout = Context.packageDirectory.contains("/checkouts/")
let optimized: [SwiftSetting] = isCheckout ? [] : [.unsafeFlags(["-O"], .when(configuration: .debug))]

let package = Package(
    name: "Kokoro",
    platforms: [.iOS(.v17), .macOS(.v14), .tvOS(.v17), .visionOS(.v1), .watchOS(.v10)],
    products: [
        .library(name: "Kokoro", targets: ["Kokoro"]),
        .library(name: "KokoroONNX", targets: ["KokoroONNX"]),
        .executable(name: "kokoro-speak", targets: ["kokoro-speak"]),
    ],
    targets: [
        .target(name: "KokoroSteps", path: "swift/Sources/KokoroSteps", swiftSettings: optimized),
        .target(name: "KokoroText", dependencies: ["KokoroSteps"], path: "swift/Sources/KokoroText", swiftSettings: optimized),
        .target(name: "Kokoro", dependencies: ["KokoroSteps", "KokoroText"] + apple, path: "swift/Sources/Kokoro", swiftSettings: optimized),
        .target(name: "KokoroVectors", dependencies: ["KokoroSteps"], path: "swift/Tests/KokoroVectors"),
        .target(name: "COnnxRuntime", path: "swift/Sources/COnnxRuntime"),
        .target(name: "KokoroONNX", dependencies: ["Kokoro", "KokoroSteps", "COnnxRuntime"], path: "swift/Sources/KokoroONNX"),
        .executableTarget(name: "kokoro-speak", dependencies: ["Kokoro", "KokoroONNX", "KokoroText"], path: "swift/Sources/kokoro-speak"),
        .testTarget(name: "KokoroStepsTests", dependencies: ["KokoroSteps", "KokoroVectors"], path: "swift/Tests/KokoroStepsTests"),
        .testTarget(name: "KokoroTextTests", dependencies: ["KokoroText"], path: "swift/Tests/KokoroTextTests"),
        .testTarget(name: "KokoroTests", dependencies: ["Kokoro", "KokoroONNX", "KokoroVectors"], path: "swift/Tests/KokoroTests"),
    ] + (standIn ? [
        .target(name: "CoreML", dependencies: ["KokoroVectors"], path: "swift/Tests/CoreMLStandIn"),
        .target(name: "SwiftUI", path: "swift/Tests/AppStandIn/SwiftUI"),
        .target(name: "AVFoundation", path: "swift/Tests/AppStandIn/AVFoundation"),
        .target(name: "PageExamples", dependencies: ["Kokoro", "KokoroONNX", "SwiftUI"] + apple, path: "swift/Tests/PageExamples"),
        .target(name: "KokoroExample", dependencies: ["Kokoro", "SwiftUI"], path: "swift/Example/KokoroExample"),
    ] : []),
    swiftLanguageModes: [.v6]
)
