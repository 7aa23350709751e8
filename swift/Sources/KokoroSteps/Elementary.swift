#if canImport(Darwin)
import Darwin
#elseif canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

// The C library's functions, under names of their own: here alone is that library imported, which each system calls otherwise.
func sine(_ x: Double) -> Double { sin(x) }
func sine(_ x: Float) -> Float { sinf(x) }
func cosine(_ x: Double) -> Double { cos(x) }
func cosine(_ x: Float) -> Float { cosf(x) }
func hyperbolicTangent(_ x: Double) -> Double { tanh(x) }
func logarithm(_ x: Float) -> Float { logf(x) }
func angle(_ y: Double, _ x: Double) -> Double { atan2(y, x) }
