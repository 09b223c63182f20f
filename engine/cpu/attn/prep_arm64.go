package attn

import (
	"math/bits"

	"godwit/engine/cpu/attn/asm"
)

// whole reports whether n values fill the registers of the kernels below.
func whole(n int) bool { return assembly() && n > 0 && n%32 == 0 }

func hadamard(x, pre, post []float32, c float32) {
	n := len(x)
	_, _ = pre[n-1], post[n-1]
	if !whole(n) || n&(n-1) != 0 {
		hadamardGeneric(x, pre, post, c)
		return
	}
	asm.HadamardNEON(&x[0], n, &pre[0], &post[0], c)
}

func maxAbs(x []float32) float32 {
	if !whole(len(x)) {
		return maxAbsGeneric(x)
	}
	return asm.MaxAbsNEON(&x[0], len(x))
}

func roundInt8(dst []int8, x []float32, inv float32) int32 {
	_ = dst[(len(x)/32-1)*32*panel+31]
	if !whole(len(x)) {
		return roundInt8Generic(dst, x, inv)
	}
	return asm.RoundInt8NEON(&dst[0], &x[0], len(x), inv)
}

func remainder(dst, x []float32, inv, step float32) {
	_ = dst[len(x)-1]
	if !whole(len(x)) {
		remainderGeneric(dst, x, inv, step)
		return
	}
	asm.RemainderNEON(&dst[0], &x[0], len(x), inv, step)
}

func roundAway(dst []uint8, x []float32, inv float32) {
	_ = dst[len(x)-1]
	if !whole(len(x)) {
		roundAwayGeneric(dst, x, inv)
		return
	}
	asm.RoundAwayNEON(&dst[0], &x[0], len(x), inv)
}

func toHalf(dst []byte, x []float32) {
	_ = dst[2*len(x)-1]
	if !assembly() || len(x)%8 != 0 {
		toHalfGeneric(dst, x)
		return
	}
	asm.ToHalfNEON(&dst[0], &x[0], len(x))
}

func codesOf(dst []uint8, x, boundaries []float32) {
	_ = dst[len(x)-1]
	if !whole(len(x)) {
		codesOfGeneric(dst, x, boundaries)
		return
	}
	asm.CodesOfNEON(&dst[0], &x[0], len(x), &boundaries[0], len(boundaries))
}

func scatterValues(plane, c []uint8, step, width, at, first int) {
	if !assembly() {
		scatterValuesGeneric(plane, c, step, width, at, first)
		return
	}
	log := bits.Len(uint(8/width)) - 1 // log2 of the steps in a line
	_ = plane[(step+len(c)/16-1)>>log*64+63]
	asm.ScatterValuesNEON(&plane[0], &c[0], len(c)/16, step, log, width, at, first)
}

// The codes of keys are split in plain Go.

func scatterTokens(plane, c []uint8, step, width, first int) {
	scatterTokensGeneric(plane, c, step, width, first)
}

func spreadHalves(dst, src []byte) { spreadHalvesGeneric(dst, src) }

// Quotients writes x/y to dst, element by element. All three have the same
// length, and dst may be x.
func Quotients(dst, x, y []float32) { quotientsGeneric(dst, x, y) }

func dots(dst, q, x []float32, values, n, rows int) { dotsGeneric(dst, q, x, values, n, rows) }
