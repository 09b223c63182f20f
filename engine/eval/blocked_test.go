package eval

import (
	"math"
	"testing"
)

// TestBlocked checks the standard error of a mean over blocks of 64 values. If the
// values in a block are equal, each block counts as one observation. If all values are
// independent, each value does.
func TestBlocked(t *testing.T) {
	const blocks = 400
	seed := random(3)
	value := func() float64 { return float64(seed.next()>>11) / (1 << 53) }
	var runs, single blocked
	for b := range blocks {
		x := value()
		for range blockTokens {
			runs.add(b, x)
			single.add(b, value())
		}
	}
	// A uniform value has the variance 1/12. A deviation that is estimated from n
	// blocks has a relative error of 1/√(2n), here 3.5 %. The test allows four
	// times that.
	for name, c := range map[string]struct {
		got blocked
		n   float64
	}{"runs": {runs, blocks}, "single": {single, blocks * blockTokens}} {
		want := math.Sqrt(1.0 / 12 / c.n)
		if e := c.got.stderr(); math.Abs(e/want-1) > 4/math.Sqrt(2*blocks) {
			t.Errorf("%s: standard error %g, want about %g", name, e, want)
		}
		if math.Abs(c.got.value()-0.5) > 4*want {
			t.Errorf("%s: mean %g", name, c.got.value())
		}
	}
	var one blocked
	for i := range 10 {
		one.add(7, float64(i))
	}
	if one.stderr() != one.mean.stderr() || one.value() != 4.5 {
		t.Errorf("one block: %g ± %g", one.value(), one.stderr())
	}
}
