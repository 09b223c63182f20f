package kernel

import (
	"unsafe"

	"godwit/engine/cpu/kernel/asm"
)

// These kernels process whole vectors. Plain Go does the rest, with the same
// bits.

// vectors returns how many of n values a kernel processes that takes per values at a
// time. It returns 0 in the generic tier.
func vectors(n, per int) int {
	if active == Generic {
		return 0
	}
	return n &^ (per - 1)
}

func ropePairs(x, cos, sin []float32) {
	n := vectors(len(cos), 4)
	if n > 0 {
		asm.RopePairsNEON(&x[0], &cos[0], &sin[0], n)
	}
	ropePairsGeneric(x[2*n:], cos[n:], sin[n:])
}

func fromF16(dst []float32, x []uint16) {
	n := vectors(len(dst), 4)
	if n > 0 {
		asm.FromF16NEON(&dst[0], &x[0], n)
	}
	fromF16Generic(dst[n:], x[n:])
}

func toF16(dst []uint16, x []float32) {
	n := vectors(len(dst), 4)
	if n > 0 {
		asm.ToF16NEON(&dst[0], &x[0], n)
	}
	toF16Generic(dst[n:], x[n:])
}

func fromBF16(dst []float32, x []uint16) {
	n := vectors(len(dst), 4)
	if n > 0 {
		asm.FromBF16NEON(&dst[0], &x[0], n)
	}
	fromBF16Generic(dst[n:], x[n:])
}

func toBF16(dst []uint16, x []float32) {
	n := vectors(len(dst), 4)
	if n > 0 {
		asm.ToBF16NEON(&dst[0], &x[0], n)
	}
	toBF16Generic(dst[n:], x[n:])
}

func maximum(x []float32) float32 {
	n := vectors(len(x), 4)
	if n == 0 {
		return maxGeneric(x)
	}
	return max(asm.MaximumNEON(&x[0], n), maxGeneric(x[n:]))
}

func index(x []float32, f float32) int {
	n := vectors(len(x), 4)
	if n > 0 {
		n = asm.IndexNEON(&x[0], n, f)
	}
	if at := indexGeneric(x[n:], f); at >= 0 {
		return n + at
	}
	return -1
}

func quantize(dst []actBlock, x []float32) {
	if n := vectors(32*len(dst), 32); n > 0 {
		asm.QuantizeNEON((*byte)(unsafe.Pointer(&dst[0])), &x[:n][0], n)
		return
	}
	quantizeGeneric(dst, x)
}

func rowSum(dst, s, w []float32, stride int) {
	n := vectors(len(dst), 4)
	if n > 0 {
		asm.RowSumNEON(&dst[0], &s[0], &w[0], stride, len(w), n)
	}
	rowSumGeneric(dst[n:], s[n:], w, stride)
}

func rowStep(out, s, d, q, k []float32, stride int, decay float32) {
	n := vectors(len(out), 4)
	if n > 0 {
		asm.RowStepNEON(&out[0], &s[0], &d[0], &q[0], &k[0], stride, len(k), n, decay)
	}
	rowStepGeneric(out[n:], s[n:], d[n:], q, k, stride, decay)
}
