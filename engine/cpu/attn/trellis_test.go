package attn

import (
	"bytes"
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

// The encoder of every tier chooses the windows of the plain one, on ordinary
// values and at the ends of their range.
func TestTrellisSearch(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(10, 10))
		s := new(paths)
		eachTrellis(t, func(form *kv.Type) {
			y := newTrellis(form, kv.K)
			z, got, want := make([]int16, form.Elems), make([]byte, form.Elems), make([]byte, form.Elems)
			for round := range 60 {
				for i := range z {
					v := rng.NormFloat64() * 80
					if round%4 == 3 {
						v *= float64(rng.IntN(8))
					}
					z[i] = int16(min(max(v, -254), 254))
				}
				if round == 0 {
					clear(z)
				}
				searchTrellis(got, z, y, s)
				y.run.Encode(want, z)
				if !bytes.Equal(got, want) {
					t.Fatalf("%s %d round %d:\n% x, plain\n% x", form.Name, form.Elems, round, got, want)
				}
			}
		})
	})
}

func BenchmarkTrellisWrite(b *testing.B) {
	rng := rand.New(rand.NewPCG(9, 9))
	eachTrellis(b, func(form *kv.Type) {
		f := New(form, form.Elems, Options{Side: kv.K})
		s, page, x := NewScratch(f), make([]byte, f.PageBytes()), random(rng, form.Elems)
		b.Run(fmt.Sprintf("%s/%d", form.Name, form.Elems), func(b *testing.B) {
			for b.Loop() {
				f.Write(page, 3, x, kv.At{}, s)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(x)), "ns/value")
		})
	})
}
