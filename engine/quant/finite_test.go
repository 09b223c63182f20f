package quant_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// finite reports whether all values of some blocks are finite after decoding.
func finite(t *testing.T, typ dtype.Type, src []byte) bool {
	t.Helper()
	x := make([]float32, len(src)/typ.Bytes()*typ.Elems())
	if err := quant.Decode(typ, x, src); err != nil {
		t.Fatal(err)
	}
	for _, v := range x {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return false
		}
	}
	return true
}

// TestNotFinite compares NotFinite with the decoded values of random bytes. It
// must find a block with values that are not finite, and the first such block
// among finite ones.
func TestNotFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for _, typ := range quant.Types() {
		if !quant.Weights(typ) {
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			n := typ.Bytes()
			sound := make([]byte, 0, 77*n)
			block := make([]byte, n)
			found := 0
			for range 20_000 {
				for i := range block {
					block[i] = byte(r.Uint32())
				}
				got, want := quant.NotFinite(typ, block) < 0, finite(t, typ, block)
				if got && !want {
					t.Fatalf("% x has values that are not finite", block)
				}
				if got && len(sound) < cap(sound) {
					sound = append(sound, block...)
				}
				if got || found > 5 {
					continue
				}
				found++
				for _, at := range []int{0, 1, 40, 76} {
					blocks := append([]byte(nil), sound[:77*min(len(sound)/77/n, 1)*n]...)
					if len(blocks) == 0 {
						found-- // not enough finite blocks yet
						break
					}
					copy(blocks[at*n:], block)
					if i := quant.NotFinite(typ, blocks); i != at {
						t.Fatalf("% x as block %d: found in %d", block, at, i)
					}
				}
			}
			if found < 3 {
				t.Errorf("%d damaged blocks in random bytes", found)
			}
		})
	}
}

func BenchmarkNotFinite(b *testing.B) {
	for _, typ := range quant.Types() {
		if !quant.Weights(typ) {
			continue
		}
		src := make([]byte, 256<<10/typ.Bytes()*typ.Bytes())
		b.Run(fmt.Sprint(typ), func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if quant.NotFinite(typ, src) >= 0 {
					b.Fatal("damaged")
				}
			}
		})
	}
}
