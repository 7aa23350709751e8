/// Values in row-major order with their shape.
package struct Tensor: Equatable, Sendable {
    /// Length of each axis.
    package let shape: [Int]
    /// As many values as the shape holds.
    package let values: [Float]

    /// Throws `wrongSize` where values and shape do not fit.
    package init(_ name: String, shape: [Int], values: [Float]) throws(KokoroError) {
        let wanted = shape.reduce(1, *)
        guard values.count == wanted else { throw .wrongSize(name, found: values.count, wanted: wanted) }
        self.shape = shape
        self.values = values
    }

    /// The last axis: time, in every tensor of the chain.
    package var columns: Int { shape.last ?? 0 }
    /// All other axes together.
    package var rows: Int { columns == 0 ? 0 : values.count / columns }
}

extension Sequence where Element == Float {
    /// Throws `notFinite` for the first NaN or infinity.
    package func requireFinite(_ name: String) throws(KokoroError) {
        var place = 0
        for value in self {
            guard value.isFinite else { throw .notFinite(name, place: place) }
            place += 1
        }
    }
}
