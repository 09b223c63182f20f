package kernel

import (
	"unsafe"

	"godwit/engine/cpu/kernel/asm"
)

// These kernels process whole vectors. Plain Go does the rest, with the same
// bits.

// vector returns the number of values that a kernel processes at once.
func vector() int {
	switch active {
	case AVX512:
		return 16
	case AVX2:
		return 8
	}
	return 1
}

func ropePairs(x, cos, sin []float32) {
	n := len(cos) &^ (vector()/2 - 1)
	switch {
	case n == 0 || active == Generic:
		n = 0
	case active == AVX512:
		asm.RopePairsAVX512(x[:2*n], cos, sin)
	default:
		asm.RopePairsAVX2(x[:2*n], cos, sin)
	}
	ropePairsGeneric(x[2*n:], cos[n:], sin[n:])
}

func fromF16(dst []float32, x []uint16) {
	n := len(dst) &^ (vector() - 1)
	switch {
	case n == 0 || active == Generic:
		n = 0
	case active == AVX512:
		asm.FromF16AVX512(dst[:n], x)
	default:
		asm.FromF16AVX2(dst[:n], x)
	}
	fromF16Generic(dst[n:], x[n:])
}

func toF16(dst []uint16, x []float32) {
	n := len(dst) &^ (vector() - 1)
	switch {
	case n == 0 || active == Generic:
		n = 0
	case active == AVX512:
		asm.ToF16AVX512(dst[:n], x)
	default:
		asm.ToF16AVX2(dst[:n], x)
	}
	toF16Generic(dst[n:], x[n:])
}

func fromBF16(dst []float32, x []uint16) {
	n := len(dst) &^ (vector() - 1)
	switch {
	case n == 0 || active == Generic:
		n = 0
	case active == AVX512:
		asm.FromBF16AVX512(dst[:n], x)
	default:
		asm.FromBF16AVX2(dst[:n], x)
	}
	fromBF16Generic(dst[n:], x[n:])
}

func toBF16(dst []uint16, x []float32) {
	n := len(dst) &^ (vector() - 1)
	switch {
	case n == 0 || active == Generic:
		n = 0
	case active == AVX512:
		asm.ToBF16AVX512(dst[:n], x)
	default:
		asm.ToBF16AVX2(dst[:n], x)
	}
	toBF16Generic(dst[n:], x[n:])
}

func maximum(x []float32) float32 {
	n := len(x) &^ (vector() - 1)
	switch {
	case n == 0 || active == Generic:
		return maxGeneric(x)
	case active == AVX512:
		return max(asm.MaximumAVX512(x[:n]), maxGeneric(x[n:]))
	}
	return max(asm.MaximumAVX2(x[:n]), maxGeneric(x[n:]))
}

func index(x []float32, f float32) int {
	n := len(x) &^ (vector() - 1)
	var at int
	switch {
	case n == 0 || active == Generic:
		return indexGeneric(x, f)
	case active == AVX512:
		at = asm.IndexAVX512(x[:n], f)
	default:
		at = asm.IndexAVX2(x[:n], f)
	}
	if at >= 0 {
		return at
	}
	if at = indexGeneric(x[n:], f); at >= 0 {
		at += n
	}
	return at
}

func quantize(dst []actBlock, x []float32) {
	switch {
	case len(dst) == 0:
	case active == AVX512:
		asm.QuantizeAVX512((*byte)(unsafe.Pointer(&dst[0])), x[:32*len(dst)])
	case active == AVX2:
		asm.QuantizeAVX2((*byte)(unsafe.Pointer(&dst[0])), x[:32*len(dst)])
	default:
		quantizeGeneric(dst, x)
	}
}
