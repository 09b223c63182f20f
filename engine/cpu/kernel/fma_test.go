package kernel

import (
	"math"
	"math/big"
	"testing"
)

// The expected values come from big floats. The sums end near the middle
// between two float32 values, or below the smallest normal number.
func TestFMA(t *testing.T) {
	r := rnd(10)
	check := func(a, b, c float32) {
		x := new(big.Float).SetPrec(2000).SetFloat64(float64(a))
		x.Mul(x, big.NewFloat(float64(b)))
		x.Add(x, big.NewFloat(float64(c)))
		want, _ := x.Float32()
		if got := fma(a, b, c); got != want {
			t.Fatalf("fma(%g, %g, %g) = %g, want %g", a, b, c, got, want)
		}
	}
	for range 200000 {
		a := float32(r.IntN(1<<24)) * float32(math.Ldexp(1, r.IntN(40)-20))
		b := float32(r.IntN(1<<24)) * 0x1p-24
		check(a, b, float32(r.NormFloat64()))
		half := math.Float32frombits(r.Uint32N(0x7f000000))
		check(half, 1+0x1p-23, math.Nextafter32(half, 0))
		check(half, 1+0x1p-12, -half)
		check(float32(r.NormFloat64())*0x1p-70, float32(r.NormFloat64())*0x1p-60, float32(r.NormFloat64())*0x1p-135)
	}
	for _, c := range [][3]float32{{0, 1, 0}, {1, 1, -1}, {0x1p-149, 0.5, 0}, {0x1p-149, 0.5, 0x1p-149}, {-0x1p-149, 0.75, 0}} {
		check(c[0], c[1], c[2])
	}
	inf := float32(math.Inf(1))
	if v := fma(inf, 0, 1); v == v {
		t.Errorf("inf·0 + 1 = %g", v)
	}
	if v := fma(inf, 1, 1); v != inf {
		t.Errorf("inf + 1 = %g", v)
	}
	if v := fma(3e38, 2, -inf); v != -inf {
		t.Errorf("big - inf = %g", v)
	}
	if v := fma(3e38, 2, 1); v != inf {
		t.Errorf("overflow = %g", v)
	}
}
