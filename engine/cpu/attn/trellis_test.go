package attn

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"godwit/engine/kv"
)

// eachTrellis calls f for every simple form with trellis codes.
func eachTrellis(t testing.TB, f func(form *kv.Type)) {
	seen := 0
	for _, typ := range kv.Types() {
		for _, dim := range []int{32, 64, 128, 256} {
			if form := typ.Form(dim, kv.K); form.Codes.Packing == kv.Cyclic {
				seen++
				f(form)
			}
		}
	}
	if seen == 0 {
		t.Fatal("no trellis codes")
	}
}

// Tiles have the level of every value in its place, whatever the codes: in
// every tier they are the type's own reading of the rows.
func TestTrellisTiles(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 9))
		eachTrellis(t, func(form *kv.Type) {
			for _, s := range []kv.Side{kv.K, kv.V} {
				f := New(form, form.Elems, Options{Side: s})
				p := f.parts[0].(*codes)
				page := randomBytes(rng, f.PageBytes())
				for range 4 {
					used := rng.Uint64() & rng.Uint64() & rng.Uint64()
					if s == kv.K {
						used = allCells
					}
					got := make([]byte, p.values*Cells)
					p.lookUpTrellis(got, page, 0, used)
					checkTile(t, p, got, page, used)
				}
			}
		})
	})
}

func checkTile(t *testing.T, p *codes, tile, page []byte, used uint64) {
	t.Helper()
	row := make([]byte, p.Form.Bytes)
	x := make([]float32, p.elems)
	unit := *p.Form
	unit.Scale.Unit = 1
	for cell := range Cells {
		if used>>(cell&^3)&15 == 0 {
			continue
		}
		p.get(row, page, cell)
		row[0], row[1] = 0, 0x3c // a scale of 1
		unit.DecodeRotated(x, row)
		for i, want := range x {
			step, at := p.step(cell, i)
			got := int(int8(tile[64*step+at]))
			if p.side == kv.K {
				got = int(tile[64*step+at]) - 128
			}
			if got != int(want) {
				t.Fatalf("%s %d %v: cell %d value %d is %d, want %g", p.Form.Name, p.elems, p.side, cell, i, got, want)
			}
		}
	}
}

func BenchmarkTrellisTile(b *testing.B) {
	rng := rand.New(rand.NewPCG(9, 9))
	eachTrellis(b, func(form *kv.Type) {
		for _, s := range []kv.Side{kv.K, kv.V} {
			f := New(form, form.Elems, Options{Side: s})
			p := f.parts[0].(*codes)
			page, tile := randomBytes(rng, f.PageBytes()), make([]byte, p.values*Cells)
			b.Run(fmt.Sprintf("%s/%d/%v", form.Name, form.Elems, s), func(b *testing.B) {
				for b.Loop() {
					p.lookUpTrellis(tile, page, 0, allCells)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(tile)), "ns/value")
			})
		}
	})
}
