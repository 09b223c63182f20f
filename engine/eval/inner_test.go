package eval

import (
	"math"
	"testing"
)

// There are few ticks. They are a round step apart and enclose the range.
func TestTicks(t *testing.T) {
	for _, c := range [][2]float64{{0, 114}, {0, 1024}, {5580, 12240}, {0, 0}, {7, 7}, {-3, 0.02}, {0, 1e-7}, {1e6, 1e6 + 1}, {0, 3e12}} {
		got := ticks(c[0], c[1])
		last := len(got) - 1
		if got[0] > c[0] || got[last] < c[1] || len(got) < 2 || len(got) > 8 {
			t.Errorf("%v: %v", c, got)
			continue
		}
		step := got[1] - got[0]
		digit := step / math.Pow(10, math.Floor(math.Log10(step)+1e-9))
		if d := math.Round(digit); math.Abs(digit-d) > 1e-6 || d != 1 && d != 2 && d != 5 {
			t.Errorf("%v: a step of %g", c, step)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), 1e300} {
		if got := ticks(0, x); len(got) != 2 {
			t.Errorf("up to %g: %v", x, got)
		}
	}
	for _, c := range [][2]float64{{-4, -1}, {-3.3, -1.2}, {-2.5, -2.4}, {-9, 0}, {1, 1}} {
		got := logTicks(c[0], c[1])
		if last := len(got) - 1; got[0] > c[0] || got[last] < c[1] || len(got) > 10 {
			t.Errorf("10^%v: %v", c, got)
		}
		for i := 1; i < len(got); i++ {
			if got[i] <= got[i-1] {
				t.Errorf("10^%v: %v", c, got)
			}
		}
	}
}

// Chance can explain the loss of one item in sixteen, but not of six in eight.
func TestCopiesLess(t *testing.T) {
	items := func(n int, lost ...int) []bool {
		x := make([]bool, 16)
		for i := range n {
			x[i] = true
		}
		for _, i := range lost {
			x[i] = !x[i]
		}
		return x
	}
	for _, c := range []struct {
		got  []bool
		want bool
	}{
		{items(8), false},
		{items(8, 0), false},
		{items(8, 0, 9, 10), false},
		{items(8, 0, 1, 2, 3), true},
		{items(8, 0, 1, 2, 3, 4, 5, 9), true},
		{items(0), true},
		{items(16), false},
	} {
		if got := copiesLess(items(8), c.got, 0.95); got != c.want {
			t.Errorf("%v: %v", c.got, got)
		}
	}
}
