package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/kv"
)

// Keys that are stored normalised and without their mean give the same
// attention as the original keys, whether or not the softmax is
// shift-invariant. The bound is float32 rounding. Keys of size 10 with means
// ten times as large lose one decimal digit.
func TestChannels(t *testing.T) {
	const dim, kvHeads = 64, 2
	rng := rand.New(rand.NewPCG(5, 5))
	var channels []kv.Channels
	for range kvHeads {
		c := kv.Channels{Mean: make([]float32, dim), Gain: make([]float32, dim)}
		for i := range dim {
			c.Mean[i] = float32(rng.NormFloat64() * 10)
			c.Gain[i] = float32(math.Exp(rng.NormFloat64()))
		}
		channels = append(channels, c)
	}
	for _, c := range []struct {
		name string
		attnRig
	}{
		{"plain", attnRig{}},
		{"soft cap", attnRig{softcap: 5}},
		{"sinks", attnRig{sinkLogits: []float32{0, 3, -1, 7, 2, 1}}},
		{"both", attnRig{softcap: 5, sinkLogits: []float32{0, 3, -1, 7, 2, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.attnRig
			r.k, r.v, r.heads, r.kvHeads, r.dim, r.dimV = "f32", "f32", 6, kvHeads, dim, dim
			r.cells, r.rows, r.options.Threads = 1024, 600, 1
			r.random(7)
			for i := range r.table { // the keys of a token are near the means
				if k := i%r.width() - r.heads*dim; k >= 0 && k < kvHeads*dim {
					r.table[i] += channels[k/dim].Mean[k%dim]
				}
			}
			tokens := someTokens(rng, 560)
			chunk := func(left int) int { return max(left-20, 1) } // the last rows run one by one
			want := r.open(t).rowsOf(t, 0, tokens, chunk, nil)
			r.channels = channels
			got := r.open(t).rowsOf(t, 0, tokens, chunk, nil)
			for i := range want {
				if d := math.Abs(float64(got[i] - want[i])); !(d < 1e-4) {
					t.Fatalf("value %d is %g, without calibration %g", i, got[i], want[i])
				}
			}
		})
	}
}
