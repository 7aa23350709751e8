/// IEEE half precision by its bits: `Float16` is missing on Intel Macs, and Core ML's arrays are bytes anyway.
package enum HalfFloat {
    /// The nearest half, ties to even; infinity beyond 65,519.
    package static func bits(_ value: Float) -> UInt16 {
        let bits = value.bitPattern, sign = UInt16(truncatingIfNeeded: bits >> 16) & 0x8000, magnitude = bits & 0x7FFF_FFFF
        if magnitude > 0x7F80_0000 { return sign | 0x7E00 }  // NaN
        if magnitude >= 0x477F_F000 { return sign | 0x7C00 }
        if magnitude < 0x3880_0000 {  // below 2^-14: the half is subnormal, a whole number of 2^-24
            let steps = (Float(bitPattern: magnitude) * 0x1p24).rounded(.toNearestOrEven)
            return sign | UInt16(steps)
        }
        let rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1)
        return sign | UInt16(truncatingIfNeeded: (rounded - 0x3800_0000) >> 13)
    }

    /// The value of a half; exact.
    package static func value(_ bits: UInt16) -> Float {
        let sign = UInt32(bits & 0x8000) << 16, exponent = UInt32(bits >> 10) & 31, fraction = UInt32(bits & 0x3FF)
        if exponent == 0 { return Float(bitPattern: sign | (Float(fraction) * 0x1p-24).bitPattern) }
        let widened = exponent == 31 ? 255 : exponent + 112
        return Float(bitPattern: sign | widened << 23 | fraction << 13)
    }
}
