package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func gaussian(seed uint64, n int) []float32 {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// Rows of every width, next to columns that must not change.
func TestRowBits(t *testing.T) {
	const rows, stride = 5, 150
	s, d, q, k := gaussian(1, rows*stride), gaussian(2, stride), gaussian(3, rows), gaussian(4, rows)
	for n := 1; n <= stride; n++ {
		sum, step, state := make([]float32, n), make([]float32, n), slices.Clone(s)
		rowSumGeneric(sum, s, k, stride)
		rowStepGeneric(step, state, d, q, k, stride, 0.7)
		eachTier(t, func(t *testing.T) {
			got := make([]float32, n)
			RowSum(got, s, stride, k)
			sameBits(t, fmt.Sprintf("row sum of %d", n), got, sum)
			changed := slices.Clone(s)
			RowStep(got, changed, stride, d[:n], q, k, 0.7)
			sameBits(t, fmt.Sprintf("row step of %d", n), got, step)
			sameBits(t, fmt.Sprintf("state of %d", n), changed, state)
		})
	}
}

func BenchmarkRows(b *testing.B) {
	const dim = 128
	s, d, q, k, out := gaussian(1, dim*dim), gaussian(2, dim), gaussian(3, dim), gaussian(4, dim), make([]float32, dim)
	eachTierBench(b, func(b *testing.B) {
		b.SetBytes(3 * 4 * dim * dim)
		for b.Loop() {
			RowSum(out, s, dim, k)
			RowStep(out, s, dim, d, q, k, 0.9)
		}
	})
}
