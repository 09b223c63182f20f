package attn

import (
	"math/bits"
	"unsafe"

	"godwit/engine/cpu/attn/asm"
)

// whole reports whether n values fill the registers of the kernels below.
func whole(n int) bool { return n > 0 && n%32 == 0 }

func hadamard(x, pre, post []float32, c float32) {
	n := len(x)
	_, _ = pre[n-1], post[n-1]
	switch {
	case avx512() && whole(n):
		asm.HadamardAVX512(&x[0], n, &pre[0], &post[0], c)
	case avx2() && whole(n):
		asm.HadamardAVX2(&x[0], n, &pre[0], &post[0], c)
	default:
		hadamardGeneric(x, pre, post, c)
	}
}

func maxAbs(x []float32) float32 {
	switch {
	case avx512() && whole(len(x)):
		return asm.MaxAbsAVX512(&x[0], len(x))
	case avx2() && whole(len(x)):
		return asm.MaxAbsAVX2(&x[0], len(x))
	}
	return maxAbsGeneric(x)
}

func roundInt8(dst []int8, x []float32, inv float32) int32 {
	_ = dst[(len(x)/32-1)*32*panel+31]
	switch {
	case avx512():
		return asm.RoundInt8AVX512(&dst[0], &x[0], len(x), inv)
	case avx2():
		return asm.RoundInt8AVX2(&dst[0], &x[0], len(x), inv)
	}
	return roundInt8Generic(dst, x, inv)
}

func remainder(dst, x []float32, inv, step float32) {
	_ = dst[len(x)-1]
	switch {
	case avx512() && whole(len(x)):
		asm.RemainderAVX512(&dst[0], &x[0], len(x), inv, step)
	case avx2() && whole(len(x)):
		asm.RemainderAVX2(&dst[0], &x[0], len(x), inv, step)
	default:
		remainderGeneric(dst, x, inv, step)
	}
}

func roundAway(dst []uint8, x []float32, inv float32) {
	_ = dst[len(x)-1]
	switch {
	case avx512() && whole(len(x)):
		asm.RoundAwayAVX512((*int8)(unsafe.Pointer(&dst[0])), &x[0], len(x), inv)
	case avx2() && whole(len(x)):
		asm.RoundAwayAVX2((*int8)(unsafe.Pointer(&dst[0])), &x[0], len(x), inv)
	default:
		roundAwayGeneric(dst, x, inv)
	}
}

func toHalf(dst []byte, x []float32) {
	_ = dst[2*len(x)-1]
	switch {
	case avx512() && len(x)%8 == 0:
		asm.ToHalfAVX512(&dst[0], &x[0], len(x))
	case avx2() && len(x)%8 == 0:
		asm.ToHalfAVX2(&dst[0], &x[0], len(x))
	default:
		toHalfGeneric(dst, x)
	}
}

func codesOf(dst []uint8, x, boundaries []float32) {
	_ = dst[len(x)-1]
	switch {
	case avx512() && whole(len(x)):
		asm.CodesOfAVX512(&dst[0], &x[0], len(x), &boundaries[0], len(boundaries))
	case avx2() && whole(len(x)):
		asm.CodesOfAVX2(&dst[0], &x[0], len(x), &boundaries[0], len(boundaries))
	default:
		codesOfGeneric(dst, x, boundaries)
	}
}

// logSteps is the base-2 logarithm of the number of steps in a line of a plane.
func logSteps(width int) int { return bits.Len(uint(8/width)) - 1 }

func scatterTokens(plane, c []uint8, step, width, first int) {
	if !avx512() && !avx2() {
		scatterTokensGeneric(plane, c, step, width, first)
		return
	}
	log := logSteps(width)
	_ = plane[(step+len(c)-4)>>log*64+3]
	asm.ScatterTokensBMI2(&plane[0], &c[0], len(c)/4, step, log, width, first)
}

func scatterValues(plane, c []uint8, step, width, at, first int) {
	log := logSteps(width)
	_ = plane[(step+len(c)/16-1)>>log*64+63]
	switch {
	case avx512():
		asm.ScatterValuesAVX512(&plane[0], &c[0], len(c)/16, step, log, width, 8*at, first)
	case avx2():
		asm.ScatterValuesAVX2(&plane[0], &c[0], len(c)/16, step, log, width, 8*at, first)
	default:
		scatterValuesGeneric(plane, c, step, width, at, first)
	}
}

func spreadHalves(dst, src []byte) {
	n := len(src) / 2
	if !avx512() && !avx2() || n%2 != 0 {
		spreadHalvesGeneric(dst, src)
		return
	}
	_ = dst[(n-1)*2*Cells+1]
	asm.SpreadHalvesBMI2(&dst[0], &src[0], n)
}

// Quotients writes x/y to dst, element by element. All three have the same
// length, and dst may be x.
func Quotients(dst, x, y []float32) {
	if !avx512() || !whole(len(dst)) {
		quotientsGeneric(dst, x, y)
		return
	}
	_, _ = x[len(dst)-1], y[len(dst)-1]
	asm.QuotientsAVX512(&dst[0], &x[0], &y[0], len(dst))
}

func dots(dst, q, x []float32, values, n, rows int) {
	if !avx512() || !whole(values) || rows != abreast {
		dotsGeneric(dst, q, x, values, n, rows)
		return
	}
	_, _, _ = dst[(n-1)*Cells+abreast-1], q[n*values-1], x[abreast*values-1]
	asm.DotsAVX512(&dst[0], 4*Cells, &q[0], &x[0], values, n)
}
