package kernel

import (
	"math"

	"godwit/engine/dtype"
)

func each(dst, x []float32, f func(float32) float32) {
	for i, v := range x {
		dst[i] = f(v)
	}
}

func eachMul(dst, gate, up []float32, f func(float32) float32) {
	for i, v := range gate {
		dst[i] = f(v) * up[i]
	}
}

func silusGeneric(dst, x []float32)      { each(dst, x, silu) }
func gelusGeneric(dst, x []float32)      { each(dst, x, gelu) }
func geluErfsGeneric(dst, x []float32)   { each(dst, x, geluErf) }
func geluQuicksGeneric(dst, x []float32) { each(dst, x, geluQuick) }
func relusGeneric(dst, x []float32)      { each(dst, x, relu) }
func relu2sGeneric(dst, x []float32)     { each(dst, x, relu2) }
func sigmoidsGeneric(dst, x []float32)   { each(dst, x, sigmoid) }
func softplusesGeneric(dst, x []float32) { each(dst, x, softplus) }
func expsGeneric(dst, x []float32)       { each(dst, x, exp) }

func siluMulsGeneric(dst, gate, up []float32) { eachMul(dst, gate, up, silu) }
func geluMulsGeneric(dst, gate, up []float32) { eachMul(dst, gate, up, gelu) }

func softCapGeneric(dst, x []float32, limit float32) {
	for i, v := range x {
		dst[i] = limit * tanh(v/limit)
	}
}

func addGeneric(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v + b[i]
	}
}

func mulGeneric(dst, a, b []float32) {
	for i, v := range a {
		dst[i] = v * b[i]
	}
}

func scaleGeneric(dst, x []float32, s float32) {
	for i, v := range x {
		dst[i] = v * s
	}
}

func axpyGeneric(dst, x []float32, s float32) {
	for i, v := range x {
		dst[i] = fma(v, s, dst[i])
	}
}

func ropePairsGeneric(x, cos, sin []float32) {
	for i, c := range cos {
		a, b := x[2*i], x[2*i+1]
		x[2*i], x[2*i+1] = ropePair(a, b, c, sin[i])
	}
}

func ropeHalvesGeneric(lo, hi, cos, sin []float32) {
	for i, c := range cos {
		lo[i], hi[i] = ropePair(lo[i], hi[i], c, sin[i])
	}
}

// ropePair rotates (a, b). The product with the sine is rounded first.
func ropePair(a, b, cos, sin float32) (float32, float32) {
	return fma(a, cos, -float32(b*sin)), fma(b, cos, float32(a*sin))
}

func fromF16Generic(dst []float32, x []uint16) {
	for i, v := range x {
		dst[i] = dtype.F16ToF32(v)
	}
}

func toF16Generic(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = dtype.F32ToF16(v)
	}
}

func fromBF16Generic(dst []float32, x []uint16) {
	for i, v := range x {
		dst[i] = dtype.BF16ToF32(v)
	}
}

func toBF16Generic(dst []uint16, x []float32) {
	for i, v := range x {
		dst[i] = dtype.F32ToBF16(v)
	}
}

// lanes is the number of partial sums of a reduction. Value i goes to lane
// i%32. At the end the upper half of the lanes is added to the lower half until
// one is left.
const lanes = 32

func fold(s *[lanes]float32) float32 {
	for n := lanes / 2; n > 0; n /= 2 {
		for i := range n {
			s[i] += s[i+n]
		}
	}
	return s[0]
}

// The sums below have two steps. The second adds the rest that a vector kernel
// left to the partial sums in s. The rest begins at a multiple of lanes values.

func dotGeneric(a, b []float32) float32 {
	var s [lanes]float32
	return dotRest(&s, a, b)
}

func dotRest(s *[lanes]float32, a, b []float32) float32 {
	for i, v := range a {
		s[i%lanes] = fma(v, b[i], s[i%lanes])
	}
	return fold(s)
}

func sumGeneric(x []float32) float32 {
	var s [lanes]float32
	return sumRest(&s, x)
}

func sumRest(s *[lanes]float32, x []float32) float32 {
	for i, v := range x {
		s[i%lanes] += v
	}
	return fold(s)
}

func maxGeneric(x []float32) float32 {
	top := float32(math.Inf(-1))
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// expSumGeneric stores e^(x-shift) and returns the sum.
func expSumGeneric(dst, x []float32, shift float32) float32 {
	var s [lanes]float32
	return expSumRest(&s, dst, x, shift)
}

func expSumRest(s *[lanes]float32, dst, x []float32, shift float32) float32 {
	for i, v := range x {
		e := exp(v - shift)
		dst[i] = e
		s[i%lanes] += e
	}
	return fold(s)
}

// centreGeneric stores x-mean and returns the sum of squares.
func centreGeneric(dst, x []float32, mean float32) float32 {
	var s [lanes]float32
	return centreRest(&s, dst, x, mean)
}

func centreRest(s *[lanes]float32, dst, x []float32, mean float32) float32 {
	for i, v := range x {
		c := v - mean
		dst[i] = c
		s[i%lanes] = fma(c, c, s[i%lanes])
	}
	return fold(s)
}

// scaleMulGeneric computes x·s·w.
func scaleMulGeneric(dst, x, w []float32, s float32) {
	for i, v := range x {
		dst[i] = float32(v*s) * w[i]
	}
}
