package sample

import "math"

// The functions here round every operation separately. float64(a*b) + c is
// never fused, and math.Exp and math.Log are not used, because their last bits
// differ between processors. Probabilities, and thus draws, are the same
// everywhere.

const (
	expSteps = 16 // table steps per factor of two
	ln2      = 0x1.62e42fefa39efp-1
)

// pow2 holds the bits of 2^(i/16). Square roots and products are exactly rounded
// by IEEE 754.
var pow2 = func() (t [expSteps]uint64) {
	step, x := math.Sqrt(math.Sqrt(math.Sqrt(math.Sqrt2))), 1.0
	for i := range t {
		t[i] = math.Float64bits(x)
		x *= step
	}
	return t
}()

// toInt, added to a small number, leaves the nearest integer in the low bits.
const toInt = 0x1.8p52

// exp returns e^x for x ≤ 0 with a relative error of at most 1e-10, and 0 below
// -700. r is the distance to the nearest of 16 steps per factor of two, so |r|
// ≤ ln 2/32, and the series leaves out r⁵/120 < 4e-11.
func exp(x float64) float64 {
	if !(x > -700) {
		return 0
	}
	k := float64(x*(expSteps/ln2)) + toInt
	r := x - float64((k-toInt)*(ln2/expSteps))
	u := float64(r * r)
	q := 1 + r + float64(u*(0.5+float64(r*(1.0/6))+float64(u*(1.0/24))))
	n := int64(math.Float64bits(k)<<12) >> 12
	return q * math.Float64frombits(pow2[n&(expSteps-1)]+uint64(n>>4<<52))
}

// expSum returns Σ e^((x-base)·scale) over a row with no x above base. It
// inlines exp, and adds to two independent sums.
func expSum(row []float32, base, scale float64) float64 {
	var sum [2]float64
	for i, v := range row {
		x := float64((float64(v) - base) * scale)
		if !(x > -700) {
			continue
		}
		k := float64(x*(expSteps/ln2)) + toInt
		r := x - float64((k-toInt)*(ln2/expSteps))
		u := float64(r * r)
		q := 1 + r + float64(u*(0.5+float64(r*(1.0/6))+float64(u*(1.0/24))))
		n := int64(math.Float64bits(k)<<12) >> 12
		sum[i&1] += q * math.Float64frombits(pow2[n&(expSteps-1)]+uint64(n>>4<<52))
	}
	return sum[0] + sum[1]
}

// ln returns the natural logarithm of a positive normal x. With x = m·2^e and m
// in [√½, √2), ln m is 2·artanh((m-1)/(m+1)), and the argument is at most 0.172
// in magnitude, so the series leaves out less than 2e-17.
func ln(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m *= 2
		e--
	}
	t := (m - 1) / (m + 1)
	u := t * t
	sum := 0.0
	for n := 21; n >= 1; n -= 2 {
		sum = float64(sum*u) + 1/float64(n)
	}
	return float64(float64(e)*ln2) + float64(2*float64(t*sum))
}
