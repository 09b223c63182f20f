package kernel

import "math"

// fma returns a·b+c rounded once, as the hardware instruction does. The
// product is exact in float64; the sum is rounded to odd there, which makes
// the second rounding harmless (Boldo and Melquiond, "Emulation of a FMA and
// correctly rounded sums: proved algorithms using rounding to odd", 2008).
func fma(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	t := s - p
	e := (p - (s - t)) + (q - t)
	if e != 0 && e == e {
		return fmaOdd(s, e)
	}
	return float32(s)
}

// fmaOdd rounds s+e, e being what the rounding of s lost, to odd.
func fmaOdd(s, e float64) float32 {
	u := math.Float64bits(s)
	if u&1 == 0 {
		if (e > 0) == (s > 0) {
			u++
		} else {
			u--
		}
	}
	return float32(math.Float64frombits(u))
}
