import Foundation
import KokoroSteps

extension KokoroError: LocalizedError {
    /// The same line as `description`.
    public var errorDescription: String? { description }
}
