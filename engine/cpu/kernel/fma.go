package kernel

import "math"

// fma returns a·b+c rounded once, as the hardware instruction does. The product
// is exact in float64. Rounding the sum to float64 and then to float32 is wrong
// only if the first result lies halfway between two float32 values, or is
// subnormal in float32.
func fma(a, b, c float32) float32 {
	s := float64(a)*float64(b) + float64(c)
	if math.Float64bits(s)&0x1fffffff != 0x10000000 && math.Abs(s) >= 0x1p-126 {
		return float32(s)
	}
	return fmaOdd(float64(a)*float64(b), float64(c))
}

// fmaOdd adds p and q rounding to odd, which makes the second rounding harmless
// (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved
// algorithms using rounding to odd", 2008).
func fmaOdd(p, q float64) float32 {
	s := p + q
	t := s - p
	e := (p - (s - t)) + (q - t) // rounding error of s
	u := math.Float64bits(s)
	switch {
	case e == 0 || e != e || u&1 == 1:
	case (e > 0) == (s > 0):
		u++
	default:
		u--
	}
	return float32(math.Float64frombits(u))
}
