package quant

import "math"

// The encoders search for scales that make Σ w(x-x̂)² small. They compute in float64
// and in a fixed order, and they round every product before they add it. A file is
// therefore the same on every machine.

const (
	stepScale = 0.125 // distance between two scales that are tried, as a difference in the code of the widest value
	polish    = 4     // rounds of new codes and the least-squares scale for them
)

// code returns the whole number in [lo, hi] that is nearest to x·inv. It is exact if
// |x·inv| < 2^51. Beyond that, the result is lo or hi.
func code(x, inv, lo, hi float64) float64 {
	q := float64(x*inv) + 0x1.8p52 - 0x1.8p52
	if q < lo {
		return lo
	}
	if q > hi {
		return hi
	}
	return q
}

// inverse64 returns 1/d, or 0 if d is 0.
func inverse64(d float64) float64 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// project returns Σ wxq and Σ wq² for the codes q of x·inv.
func project(x, w []float64, inv, lo, hi float64) (xq, qq float64) {
	w = w[:len(x)]
	for i, f := range x {
		q := code(f, inv, lo, hi)
		wq := float64(w[i] * q)
		xq += float64(wq * f)
		qq += float64(wq * q)
	}
	return xq, qq
}

// fitScale returns a d that makes Σ w(x-d·q)² small for whole q in [lo, hi]. d can
// be negative if lo is negative.
func fitScale(x, w []float64, lo, hi float64) float64 {
	most := widest64(x)
	if most == 0 {
		return 0
	}
	var gain, d float64
	try := func(inv float64) {
		xq, qq := project(x, w, inv, lo, hi)
		if g := float64(xq * xq); qq > 0 && g > gain*qq {
			gain, d = g/qq, xq/qq
		}
	}
	for i := -12.0; i <= 12; i++ {
		inv := (max(-lo, hi) + float64(i*stepScale)) / most
		try(inv)
		if lo < 0 {
			try(-inv)
		}
	}
	if d == 0 { // every weighted sum was 0
		return most / max(-lo, hi)
	}
	for range polish {
		try(1 / d)
	}
	return d
}

// weights widens the importance of a block. If all of it is 0, every weight is 1.
// That occurs if calibration never reached an expert.
func weights(dst []float64, importance []float32) {
	widen(dst, importance)
	if widest64(dst) == 0 {
		fill(dst, 1)
	}
}

func fill(dst []float64, x float64) {
	for i := range dst {
		dst[i] = x
	}
}

func widen(dst []float64, src []float32) {
	for i, x := range src {
		dst[i] = float64(x)
	}
}

func widest64(x []float64) (most float64) {
	for _, f := range x {
		most = max(most, math.Abs(f))
	}
	return most
}

// moments are weighted sums over values x and codes q.
type moments struct{ w, x, xx, q, xq, qq float64 }

// values returns the sums that do not depend on codes.
func values(x, w []float64) (s moments) {
	w = w[:len(x)]
	for i, f := range x {
		wx := float64(w[i] * f)
		s.w += w[i]
		s.x += wx
		s.xx += float64(wx * f)
	}
	return s
}

// codes sets the sums that depend on codes. The codes are those of (x-m)·inv.
func (s *moments) codes(x, w []float64, inv, m, hi float64) {
	var q1, xq, qq float64
	w = w[:len(x)]
	for i, f := range x {
		q := code(f-m, inv, 0, hi)
		wq := float64(w[i] * q)
		q1 += wq
		xq += float64(wq * f)
		qq += float64(wq * q)
	}
	s.q, s.xq, s.qq = q1, xq, qq
}

// solve returns the d and m with the smallest err = Σ w(x-d·q-m)². If low is set, m
// is at most 0.
func (s *moments) solve(low bool) (d, m, err float64) {
	if det := float64(s.w*s.qq) - float64(s.q*s.q); det > 0 {
		d = (float64(s.w*s.xq) - float64(s.x*s.q)) / det
		m = (float64(s.qq*s.x) - float64(s.q*s.xq)) / det
	} else if s.w > 0 {
		m = s.x / s.w
	}
	if low && m > 0 {
		d, m = 0, 0
		if s.qq > 0 {
			d = s.xq / s.qq
		}
	}
	err = s.xx - float64(d*s.xq) - float64(m*s.x) // equal to the sum at the optimum
	return d, m, err
}

// fitAffine returns a d ≥ 0 and an m that make Σ w(x-d·q-m)² small for whole q in
// [0, hi]. If low is set, m is at most 0.
func fitAffine(x, w []float64, hi float64, low bool) (d, m float64) {
	x0, x1 := x[0], x[0]
	for _, f := range x {
		x0, x1 = min(x0, f), max(x1, f)
	}
	if low {
		x0 = min(x0, 0)
	}
	if x1 <= x0 {
		return 0, x0
	}
	s, best := values(x, w), math.Inf(1)
	if s.w == 0 {
		return (x1 - x0) / hi, x0
	}
	try := func(inv, m0 float64) {
		s.codes(x, w, inv, m0, hi)
		if td, tm, err := s.solve(low); err < best && td >= 0 {
			best, d, m = err, td, tm
		}
	}
	for i := -8.0; i <= 16; i++ {
		try((hi+float64(i*stepScale))/(x1-x0), x0)
	}
	for range polish {
		try(inverse64(d), m)
	}
	return d, m
}
