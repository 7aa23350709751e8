/// Values in row-major order with their shape.
public struct Tensor: Equatable, Sendable {
    /// Length of each axis.
    public let shape: [Int]
    /// As many values as the shape holds.
    public let values: [Float]

    /// Throws `wrongSize` where values and shape do not fit.
    public init(_ name: String, shape: [Int], values: [Float]) throws(KokoroError) {
        let wanted = shape.reduce(1, *)
        guard values.count == wanted else { throw .wrongSize(name, found: values.count, wanted: wanted) }
        self.shape = shape
        self.values = values
    }

    /// The last axis: time, in every tensor of the chain.
    public var columns: Int { shape.last ?? 0 }
    /// All other axes together.
    public var rows: Int { columns == 0 ? 0 : values.count / columns }
}

extension Sequence where Element == Float {
    /// Throws `notFinite` for the first NaN or infinity.
    public func requireFinite(_ name: String) throws(KokoroError) {
        var place = 0
        for value in self {
            guard value.isFinite else { throw .notFinite(name, place: place) }
            place += 1
        }
    }
}
