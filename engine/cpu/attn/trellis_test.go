package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/cpu/kernel"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
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

// In every tier, tiles have the right level of every value in the right place,
// for any codes. The expected levels come from the type's own decoder.
func TestTrellisTiles(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(9, 9))
		eachTrellis(t, func(form *kv.Type) {
			for _, s := range []kv.Side{kv.K, kv.V} {
				f := New(form, form.Elems, Options{Side: s})
				p := f.segments[0].(*codes)
				page := f.Page(randomBytes(rng, f.PageBytes()))
				for range 4 {
					used := rng.Uint64() & rng.Uint64() & rng.Uint64()
					if s == kv.K {
						used = allCells
					}
					got := make([]byte, p.values*Cells)
					p.lookUpTrellis(got, page.Read, 0, used)
					checkTile(t, p, got, page, used)
				}
			}
		})
	})
}

func checkTile(t *testing.T, p *codes, tile []byte, page Page, used uint64) {
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

// benchTrellis runs f for every simple form in every tier, and reports the time
// per value.
func benchTrellis(b *testing.B, values func(f *Form) int, f func(f *Form, page Page, s *Scratch) func()) {
	was := kernel.Active()
	defer func() {
		if err := kernel.Use(was); err != nil {
			b.Fatal(err)
		}
	}()
	for _, tier := range kernel.Tiers() {
		if err := kernel.Use(tier); err != nil {
			b.Fatal(err)
		}
		eachTrellis(b, func(form *kv.Type) {
			for _, side := range bothSides {
				c := New(form, form.Elems, Options{Side: side})
				run := f(c, c.Page(make([]byte, c.PageBytes())), NewScratch(c))
				b.Run(fmt.Sprintf("%v/%s/%d/%v", tier, form.Name, form.Elems, side), func(b *testing.B) {
					for b.Loop() {
						run()
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*values(c)), "ns/value")
				})
			}
		})
	}
}

func BenchmarkTrellisTile(b *testing.B) {
	page := func(f *Form) int { return f.Padded * Cells }
	benchTrellis(b, page, func(f *Form, page Page, s *Scratch) func() {
		p := f.segments[0].(*codes)
		return func() { p.lookUpTrellis(s.codes, page.Read, 0, allCells) }
	})
}

func BenchmarkTrellisWrite(b *testing.B) {
	rng := rand.New(rand.NewPCG(9, 9))
	benchTrellis(b, func(f *Form) int { return f.Padded }, func(f *Form, page Page, s *Scratch) func() {
		x := random(rng, f.HeadDim)
		return func() { f.Write(page, 3, x, kv.At{}, s) }
	})
}

// BenchmarkTrellisPack packs a page from its exact form.
func BenchmarkTrellisPack(b *testing.B) {
	rng := rand.New(rand.NewPCG(9, 9))
	values := func(f *Form) int { return f.Padded * Cells }
	benchTrellis(b, values, func(f *Form, page Page, s *Scratch) func() {
		eight := *kv.Q8_0
		eight.Rotation = f.Type.Rotation
		e := New(&eight, f.HeadDim, f.Options)
		from := e.Page(make([]byte, e.PageBytes()))
		for c := range Cells {
			e.Write(from, c, random(rng, f.HeadDim), kv.At{}, NewScratch(e))
		}
		s = NewScratch(f, e)
		return func() { f.Pack(page, e, from, nil, s) }
	})
}

// The encoder of every tier chooses the same windows as the plain one, for one
// row and for several together. This covers ordinary values and the ends of
// their range, where metrics do not fit 16 bits.
func TestTrellisSearch(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(10, 10))
		s := new(paths)
		eachTrellis(t, func(form *kv.Type) {
			y := newTrellis(form, kv.K)
			want := make([]byte, form.Elems)
			for round := range 60 {
				for i := range s.z {
					fillTargets(rng, s.z[i][:form.Elems], round+i)
				}
				rows := []int{1, abreast}[round/2%2]
				y.search(s, form.Elems, rows)
				for i := range rows {
					z := s.z[i][:form.Elems]
					y.run.Encode(want, z)
					if got := s.w[i][:form.Elems]; !bytes.Equal(got, want) {
						t.Fatalf("%s %d round %d row %d:\n% x, plain\n% x", form.Name, form.Elems, round, i, got, want)
					}
				}
			}
		})
	})
}

// fillTargets makes targets of four kinds: Gaussian, with changing size, with
// every second run of 16 clipped, and zero.
func fillTargets(rng *rand.Rand, z []int16, kind int) {
	for i := range z {
		v := rng.NormFloat64() * 80
		switch kind % 5 {
		case 2:
			v *= float64(rng.IntN(8))
		case 3:
			v = math.Copysign(v*float64(1+i/16%2*20), float64(i/16%4-1))
		case 4:
			v = 0
		}
		z[i] = int16(min(max(v, -kv.TrellisReach), kv.TrellisReach))
	}
}

// In every tier packing gives the bytes of the format's own arithmetic. The
// pages are written pages, and random bytes with infinite scales and rows with
// NaN and infinity.
func TestTrellisPackBytes(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(13, 13))
		eachPacked(t, []int{40, 64, 128, 256, 576}, func(packed, exact *kv.Type, dim int) {
			for _, side := range bothSides {
				f, e := New(packed, dim, Options{Side: side}), New(exact, dim, Options{Side: side})
				s := NewScratch(f, e)
				page, from := f.Page(make([]byte, f.PageBytes())), e.Page(randomBytes(rng, e.PageBytes()))
				for c := range 7 * Cells / 8 {
					e.Write(from, c, random(rng, dim), kv.At{}, s)
				}
				f.Pack(page, e, from, nil, s)
				for c := range Cells {
					got, row := make([]byte, f.RowBytes()), make([]byte, e.RowBytes())
					f.Get(got, page, c)
					e.Get(row, from, c)
					if want := repacked(packed, exact, dim, row); !bytes.Equal(got, want) {
						t.Fatalf("%s %d %v cell %d:\n% x, plain\n% x", packed.Name, dim, side, c, got, want)
					}
				}
			}
		})
	})
}

// repacked returns the trellis-coded row that packing makes from a row of its
// exact form.
func repacked(packed, exact *kv.Type, dim int, row []byte) []byte {
	x, out := make([]float32, packed.Padded(dim)), make([]byte, packed.RowBytes(dim))
	exact.DecodeRotated(x, row)
	for _, g := range packed.Segments(dim) {
		f := g.Form
		for b := range g.Blocks {
			v, to := x[g.Lane+b*f.Elems:][:f.Elems], out[g.At+b*f.Bytes:]
			z, w := make([]int16, len(v)), make([]uint8, len(v))
			energy := kv.TrellisTargets(z, v, f.Scale.Unit)
			f.Codes.Trellis.Encode(w, z)
			putScale(to[f.Scale.At:], f.TrellisScale(v, w, energy))
			for i := range w {
				w[i] &= 1<<f.Codes.Bits - 1
			}
			putStream(to[f.Codes.At:], w, f.Codes.Bits)
		}
	}
	return out
}

// If only the packed form is normalised, packing a page gives the same bytes as
// writing its rows directly.
func TestTrellisPackNormalised(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(14, 14))
		eachPacked(t, []int{40, 64, 576}, func(packed, exact *kv.Type, dim int) {
			channels := &kv.Channels{Mean: random(rng, dim), Gain: random(rng, dim)}
			f, e := New(packed, dim, Options{Side: kv.K}), New(exact, dim, Options{Side: kv.K})
			s := NewScratch(f, e)
			from := e.Page(make([]byte, e.PageBytes()))
			got, want := f.Page(make([]byte, f.PageBytes())), f.Page(make([]byte, f.PageBytes()))
			for c := range Cells {
				e.Write(from, c, random(rng, dim), kv.At{}, s)
				row, x := make([]byte, e.RowBytes()), make([]float32, dim)
				e.Get(row, from, c)
				exact.Decode(x, row, kv.At{})
				channels.Normalise(x, x)
				f.Write(want, c, x, kv.At{}, s)
			}
			f.Pack(got, e, from, channels, s)
			if !bytes.Equal(got.Read, want.Read) {
				t.Errorf("%s %d: a page differs from its rows", packed.Name, dim)
			}
		})
	})
}

// A page that is packed from its exact form has the same values within the
// error of the codes. This error is less than that of the best codes of single
// values (Max 1960, table 1).
func TestTrellisPack(t *testing.T) {
	scalar := map[int]float64{2: 0.1175, 3: 0.03454, 4: 0.009497}
	eachPacked(t, []int{40, 64, 96, 128, 576}, func(packed, exact *kv.Type, dim int) {
		rng := rand.New(rand.NewPCG(12, uint64(dim)))
		f, e := New(packed, dim, Options{Side: kv.V}), New(exact, dim, Options{Side: kv.V})
		s := NewScratch(f, e)
		page, from := f.Page(make([]byte, f.PageBytes())), e.Page(make([]byte, e.PageBytes()))
		for c := range Cells {
			e.Write(from, c, random(rng, dim), kv.At{}, s)
		}
		f.Pack(page, e, from, nil, s)
		var sum, norm float64
		got, want := make([]float32, dim), make([]float32, dim)
		row, other := make([]byte, f.RowBytes()), make([]byte, e.RowBytes())
		for c := range Cells {
			f.Get(row, page, c)
			e.Get(other, from, c)
			packed.Decode(got, row, kv.At{})
			exact.Decode(want, other, kv.At{})
			for i, v := range want {
				d := float64(got[i] - v)
				sum += d * d
				norm += float64(v) * float64(v)
			}
		}
		bits := f.segments[0].(*codes).cyclic.bits
		if rel := sum / norm; rel > scalar[bits] || rel < 1/math.Pow(4, float64(bits))/4 {
			t.Errorf("%s %d: relative error %.5f", packed.Name, dim, rel)
		}
	})
}

// eachPacked calls f for every form that is packed by page, together with its
// exact form, for heads of these sizes.
func eachPacked(t testing.TB, dims []int, f func(packed, exact *kv.Type, dim int)) {
	t.Helper()
	for _, typ := range kv.Types() {
		for _, dim := range dims {
			if packed, exact := exactForms(t, typ, dim); packed.PackedByPage() {
				f(packed, exact, dim)
			}
		}
	}
}

// exactForms returns the packed form of a type and its exact form.
func exactForms(t testing.TB, typ *kv.Type, dim int) (packed, exact *kv.Type) {
	t.Helper()
	window := 64
	l, err := layout.Resolve(layout.Want{V: typ}, []layout.LayerInfo{{Cached: true, Heads: 1, KVHeads: 1, HeadDimK: dim, HeadDimV: dim, Share: -1}},
		layout.Settings{Cells: Cells, ExactWindow: &window})
	if err != nil {
		t.Fatal(err)
	}
	return l.Layers[0].V.Active, l.Layers[0].V.Exact
}
