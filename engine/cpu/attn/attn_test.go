package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"godwit/engine/cpu/kernel"
	"godwit/engine/kv"
)

// TestTiers names the tiers that the tests of this package run.
func TestTiers(t *testing.T) { t.Logf("cpu tiers: attention %v", kernel.Tiers()) }

// eachTier runs f once in every tier of this machine.
func eachTier(t *testing.T, f func(t *testing.T)) {
	was := kernel.Active()
	defer func() {
		if err := kernel.Use(was); err != nil {
			t.Fatal(err)
		}
	}()
	for _, tier := range kernel.Tiers() {
		if err := kernel.Use(tier); err != nil {
			t.Fatal(err)
		}
		t.Run(tier.String(), f)
	}
}

// dims are head sizes with every kind of tail. GODWIT_TEST=all adds more sizes.
var dims = func() []int {
	if os.Getenv("GODWIT_TEST") == "all" {
		return []int{32, 40, 64, 80, 96, 112, 128, 192, 256, 512, 576}
	}
	return []int{40, 64, 96, 128, 512, 576}
}()

// eachForm calls f for every encoding at every head size that it supports.
// Short tests, which run on emulators, use three sizes that reach every kernel.
func eachForm(t *testing.T, sides []kv.Side, f func(t *testing.T, form *kv.Type, dim int, s kv.Side)) {
	for _, typ := range kv.Forms() {
		for _, dim := range dims {
			if _, err := typ.Hold(dim); err != nil || testing.Short() && (dim == 96 || dim > 128) {
				continue
			}
			for _, s := range sides {
				form := typ.Form(dim, s)
				t.Run(fmt.Sprintf("%s/%d/%v", typ.Name, dim, s), func(t *testing.T) { f(t, form, dim, s) })
			}
		}
	}
}

var bothSides = []kv.Side{kv.K, kv.V}

func random(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// Rows read from a page have the bytes that were written, whatever is around
// them. This also holds for rows that Write encodes.
func TestRoundTrip(t *testing.T) {
	eachForm(t, bothSides, func(t *testing.T, typ *kv.Type, dim int, s kv.Side) {
		rng := rand.New(rand.NewPCG(1, uint64(dim)))
		f := New(typ, dim, Options{Side: s})
		scratch := NewScratch(f)
		memory := make([]byte, f.PageBytes())
		page := f.Page(memory)
		fill := func(b []byte) {
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
		}
		fill(memory)
		rows := make([][]byte, Cells)
		for _, c := range rng.Perm(Cells) {
			rows[c] = make([]byte, f.RowBytes())
			fill(rows[c])
			if c%3 == 0 {
				x := random(rng, dim)
				typ.Encode(rows[c], x, kv.At{Pos: c})
				f.Write(page, c, x, kv.At{Pos: c}, scratch)
			} else {
				f.Put(page, c, rows[c])
			}
		}
		other := f.Page(make([]byte, f.PageBytes()))
		got := make([]byte, f.RowBytes())
		for c, want := range rows {
			fill(got)
			f.Get(got, page, c)
			if !bytes.Equal(got, want) {
				t.Fatalf("cell %d leaves as %x, came as %x", c, got, want)
			}
			f.Copy(other, Cells-1-c, page, c, scratch)
		}
		for c, want := range rows {
			f.Get(got, other, Cells-1-c)
			if !bytes.Equal(got, want) {
				t.Fatalf("cell %d copied as %x, was %x", c, got, want)
			}
		}
	})
}

// pageOf returns a page of encoded rows, the rows, and the values that they
// decode to in the rotated domain.
func pageOf(rng *rand.Rand, f *Form, cells int) (page Page, rows [][]byte, values [][]float32) {
	page = f.Page(make([]byte, f.PageBytes()))
	scratch := NewScratch(f)
	for c := range cells {
		x := random(rng, f.HeadDim)
		x[rng.IntN(len(x))] *= 10
		row := make([]byte, f.RowBytes())
		f.Type.Encode(row, x, kv.At{Pos: c})
		v := make([]float32, f.Padded)
		f.Type.DecodeRotated(v, row)
		f.Write(page, c, x, kv.At{Pos: c}, scratch)
		rows, values = append(rows, row), append(values, v)
	}
	return page, rows, values
}

// rounding bounds the error that int8 arithmetic adds. A query value is off by
// half of a 127th of the largest in its block. A weight times its scale is off
// by half of a 255th of the largest in the page. A level is off by what its
// table says.
type rounding struct {
	first, n int
	level    float64 // largest error of a level, in units of the scale
	scaleAt  int     // offset of block 0's scale in a row; -1 for float arithmetic
	stride   int
	per      int
	signs    bool
	fine     bool // the query has two rows, so it is off by half of a 127th of a 254th
}

func roundings(f *Form) (list []rounding) {
	for _, p := range f.segments {
		switch p := p.(type) {
		case *codes:
			r := rounding{first: p.Lane, n: p.values, scaleAt: p.At + p.Form.Scale.At, stride: p.Form.Bytes, per: p.elems, signs: p.sign.bits > 0, fine: p.levels.plain}
			if p.float {
				r.scaleAt = -1
			}
			if p.planar() && !p.float {
				for i, l := range p.Form.Codes.Levels {
					got := float64(p.levels.unit) * float64(int32(int8(p.levels.table[i]-byte(p.levels.zero))))
					r.level = max(r.level, math.Abs(got+float64(p.levels.centre)-float64(l)))
				}
			}
			list = append(list, r)
		case *floats:
			list = append(list, rounding{first: p.Lane, n: p.Dim, scaleAt: -1})
		case *rows:
			list = append(list, rounding{first: p.Lane, n: p.values, scaleAt: -1})
		}
	}
	return list
}

func (r rounding) scale(row []byte, v int) float64 {
	return math.Abs(float64(halfAt(row[r.scaleAt+v/r.per*r.stride:])))
}

// scoreBound returns the largest error of a score.
func scoreBound(f *Form, q, res []float32, row []byte, value []float32) (bound float64) {
	for _, r := range roundings(f) {
		var sum float64
		for v := r.first; v < r.first+r.n; v++ {
			sum += math.Abs(float64(q[v]) * float64(value[v]))
			if r.signs {
				sum += math.Abs(float64(res[v])) * math.Abs(float64(halfAt(row[resScaleAt(f, v):])))
			}
		}
		// This is a sum of n products, each rounded, and a few more roundings
		// for scales.
		bound += sum * float64(r.n+8) * 0x1p-24
		if r.scaleAt < 0 {
			continue
		}
		for b := r.first; b < r.first+r.n; b += r.per {
			var amax, ramax float64
			for v := b; v < b+r.per; v++ {
				amax = max(amax, math.Abs(float64(q[v])))
				if r.signs {
					ramax = max(ramax, math.Abs(float64(res[v])))
				}
			}
			d := r.scale(row, b-r.first)
			for v := b; v < b+r.per; v++ {
				if r.fine {
					bound += amax / 254 / 254 * math.Abs(float64(value[v]))
					continue
				}
				bound += amax/254*(math.Abs(float64(value[v]))+d*r.level) + math.Abs(float64(q[v]))*d*r.level
			}
			if r.signs {
				bound += ramax / 254 * float64(r.per) * math.Abs(float64(halfAt(row[resScaleAt(f, b):])))
			}
		}
	}
	return bound * (1 + 1e-3)
}

// resScaleAt returns the offset of the residual scale of the block with value
// v.
func resScaleAt(f *Form, v int) int {
	for _, g := range f.Type.Segments(f.HeadDim) {
		if v >= g.Lane && v < g.Lane+g.Blocks*g.Form.Elems {
			return g.At + (v-g.Lane)/g.Form.Elems*g.Form.Bytes + g.Form.Residual.At
		}
	}
	panic("attn: value out of range")
}

// Scores agree with float64 arithmetic over the decoded values, within the
// rounding bounds.
func TestScores(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		for _, float := range []bool{false, true} {
			t.Run(fmt.Sprintf("float=%v", float), func(t *testing.T) {
				eachForm(t, []kv.Side{kv.K}, func(t *testing.T, typ *kv.Type, dim int, s kv.Side) {
					testScores(t, New(typ, dim, Options{Side: kv.K, Float: float}))
				})
			})
		}
	})
}

func testScores(t *testing.T, f *Form) {
	rng := rand.New(rand.NewPCG(2, uint64(f.HeadDim)))
	const n, cells = 7, 50
	page, rows, values := pageOf(rng, f, cells)
	q := f.NewQueries(n)
	q.N = n
	rot, res := make([][]float32, n), make([][]float32, n)
	for i := range n {
		x := random(rng, f.HeadDim)
		q.Set(i, x)
		rot[i], res[i] = make([]float32, f.Padded), make([]float32, f.Padded)
		f.Type.RotateQuery(rot[i], res[i], x)
	}
	dst := make([]float32, n*Cells)
	f.Scores(dst, q, []Visit{{Page: page.Read, Ahead: Cells / 2, Cells: cells}}, NewScratch(f))
	for i := range n {
		for c := range cells {
			var want float64
			for v := range values[c] {
				want += float64(rot[i][v]) * float64(values[c][v])
			}
			if f.Type.HasResidual() {
				want += residual(f, res[i], rows[c])
			}
			got, limit := float64(dst[i*Cells+c]), scoreBound(f, rot[i], res[i], rows[c], values[c])
			if d := math.Abs(got - want); !(d <= limit) {
				t.Fatalf("query %d cell %d: %g, want %g: off by %g, at most %g", i, c, got, want, d, limit)
			}
		}
	}
}

// residual returns what the sign planes of a row add to a score.
func residual(f *Form, res []float32, row []byte) (sum float64) {
	for _, g := range f.Type.Segments(f.HeadDim) {
		r := g.Form.Residual
		if !reads(r) {
			continue
		}
		for b := range g.Blocks {
			block := row[g.At+b*g.Form.Bytes:]
			d := float64(halfAt(block[r.At:]))
			for v := range g.Form.Elems {
				s := float64(res[g.Lane+b*g.Form.Elems+v]) * d
				if block[r.Bits+v/8]>>(v%8)&1 == 0 {
					s = -s
				}
				sum += s
			}
		}
	}
	return sum
}

// Sums of weighted values also agree with float64 arithmetic, for V and for V
// as a view of K.
func TestAccumulate(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		for _, float := range []bool{false, true} {
			t.Run(fmt.Sprintf("float=%v", float), func(t *testing.T) {
				eachForm(t, bothSides, func(t *testing.T, typ *kv.Type, dim int, s kv.Side) {
					testAccumulate(t, New(typ, dim, Options{Side: s, Float: float}))
				})
			})
		}
	})
}

func testAccumulate(t *testing.T, f *Form) {
	rng := rand.New(rand.NewPCG(3, uint64(f.HeadDim)))
	const n, cells = 7, 50
	page, rows, values := pageOf(rng, f, cells)
	w, acc := make([]float32, n*Cells), make([]float32, n*f.Padded)
	var used uint64
	for i := range w {
		if c := i % Cells; c < cells && rng.IntN(5) > 0 && c/4 != 3 {
			w[i] = float32(math.Exp(3 * rng.NormFloat64()))
			used |= 1 << c
		}
	}
	for i := range acc {
		acc[i] = float32(i % 7)
	}
	f.Accumulate(acc, w, n, []Visit{{Page: page.Read, Used: used}}, NewScratch(f))
	list := roundings(f)
	for i := range n {
		for _, r := range list {
			for v := r.first; v < r.first+r.n; v++ {
				at := i*f.Padded + v
				want := float64(at % 7)
				sum := want
				var step, sumLevel, low float64
				for c := range cells {
					x := float64(w[i*Cells+c])
					want += x * float64(values[c][v])
					sum += math.Abs(x * float64(values[c][v]))
					low += math.Abs(x * minimum(f, rows[c], v))
					if r.scaleAt >= 0 {
						d := r.scale(rows[c], v-r.first)
						step = max(step, x*d)
						sumLevel += math.Abs(float64(values[c][v]))/max(d, 0x1p-24) + r.level
						sumLevel += math.Abs(minimum(f, rows[c], v)) / max(d, 0x1p-24)
						sum += x * d * r.level / ((cells + 8) * 0x1p-24)
					}
				}
				limit := (sum+2*low)*(cells+8)*0x1p-24 + step/510*sumLevel*(1+1e-3)
				got := float64(acc[at])
				if d := math.Abs(got - want); !(d <= limit) {
					t.Fatalf("row %d value %d: %g, want %g: off by %g, at most %g", i, v, got, want, d, limit)
				}
			}
		}
	}
}

// minimum returns what an affine form adds to value v.
func minimum(f *Form, row []byte, v int) float64 {
	for _, g := range f.Type.Segments(f.HeadDim) {
		if g.Form.Scale.Affine && v >= g.Lane && v < g.Lane+g.Blocks*g.Form.Elems {
			return float64(halfAt(row[g.At+(v-g.Lane)/g.Form.Elems*g.Form.Bytes+g.Form.Scale.Min:]))
		}
	}
	return 0
}
