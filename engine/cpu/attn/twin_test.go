package attn

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/kv"
)

func TestTwins(t *testing.T) {
	for _, c := range []struct {
		typ   string
		dim   int
		o     Options
		twins bool
	}{
		{"turbo2", 64, Options{Side: kv.V}, true},
		{"turbo3", 40, Options{}, true},
		{"turbo4", 64, Options{}, true},
		{"turbo3", 80, Options{}, false},
		{"turbo3", 128, Options{}, false},
		{"turbo3", 192, Options{}, false},
		{"turbo3", 64, Options{Float: true}, false},
		{"turbo3", 64, Options{Few: 4}, false},
		{"q8_0", 64, Options{}, false},
		{"tbq3", 64, Options{}, false},
		{"gw3", 64, Options{}, false},
	} {
		typ, err := kv.Parse(c.typ)
		if err != nil {
			t.Fatal(err)
		}
		typ = typ.Fit(c.dim, c.o.Side).Form
		if f := New(typ, c.dim, c.o); f.Twins() != c.twins {
			t.Errorf("%s with heads of %d, %+v: twins %v", c.typ, c.dim, c.o, f.Twins())
		}
	}
}

// eachTwin calls f for the types and head sizes of which attention reads one
// half.
func eachTwin(t *testing.T, side kv.Side, f func(t *testing.T, form *Form)) {
	eachTier(t, func(t *testing.T) {
		for _, typ := range []*kv.Type{kv.Turbo2, kv.Turbo3, kv.Turbo4} {
			for _, dim := range []int{40, 64} {
				t.Run(typ.Name, func(t *testing.T) { f(t, New(typ, dim, Options{Side: side})) })
			}
		}
	})
}

// twinPages returns n pages without asymmetric cells of a form, and the same pages of a form that
// always reads both halves.
func twinPages(rng *rand.Rand, f *Form, n int) (whole *Form, pages, wholes []Page) {
	w := *f
	w.segments = []segment{newCodes(f.shapes[0], places{}, f.Options, false)}
	w.read = w.segments[0].reads()
	s, ws := NewScratch(f), NewScratch(&w)
	for range n {
		page, other := f.Page(make([]byte, f.PageBytes())), w.Page(make([]byte, w.PageBytes()))
		for c := range Cells {
			x := random(rng, f.HeadDim)
			f.Write(page, c, x, kv.At{}, s)
			w.Write(other, c, x, kv.At{}, ws)
		}
		pages, wholes = append(pages, page), append(wholes, other)
	}
	return &w, pages, wholes
}

// Pages without asymmetric cells give the same bits if one half is read, if both halves are read,
// and with a form that has no twins.
func TestTwinBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 1))
	for _, n := range []int{1, 3, 7} {
		for _, side := range bothSides {
			eachTwin(t, side, func(t *testing.T, f *Form) { testTwinBits(t, rng, f, n) })
		}
	}
}

func testTwinBits(t *testing.T, rng *rand.Rand, f *Form, n int) {
	const pages = 3
	whole, read, reads := twinPages(rng, f, pages)
	var one, both, all [pages]Visit
	for i := range one {
		one[i] = Visit{Page: read[i].Read, At: i * n * Cells, Cells: Cells, Used: rng.Uint64()}
		both[i], all[i] = one[i], one[i]
		both[i].Rest, all[i].Page = read[i].Rest, reads[i].Read
	}
	s, ws := NewScratch(f), NewScratch(whole)
	if f.Options.Side == kv.K {
		a, b, c := make([]float32, pages*n*Cells), make([]float32, pages*n*Cells), make([]float32, pages*n*Cells)
		q, wq := f.NewQueries(n), whole.NewQueries(n)
		q.N, wq.N = n, n
		for i := range n {
			x := random(rng, f.HeadDim)
			q.Set(i, x)
			wq.Set(i, x)
		}
		f.Scores(a, q, one[:], s)
		f.Scores(b, q, both[:], s)
		whole.Scores(c, wq, all[:], ws)
		same(t, "scores of both halves", b, a)
		same(t, "scores of a form without twins", c, a)
		return
	}
	w := make([]float32, pages*n*Cells)
	for i := range w {
		if one[i/(n*Cells)].Used>>(i%Cells)&1 == 1 {
			w[i] = rng.Float32()
		}
	}
	var sums [3][]float32
	for i := range sums {
		sums[i] = make([]float32, n*f.Padded)
	}
	f.Accumulate(sums[0], w, n, one[:], s)
	f.Accumulate(sums[1], w, n, both[:], s)
	whole.Accumulate(sums[2], w, n, all[:], ws)
	for i := range n {
		var out [3][]float32
		for j, form := range []*Form{f, f, whole} {
			out[j] = make([]float32, f.HeadDim)
			form.Finish(out[j], sums[j][i*f.Padded:][:f.Padded])
		}
		same(t, "sums of both halves", out[1], out[0])
		same(t, "sums of a form without twins", out[2], out[0])
	}
}

// Reading asymmetric pages allocates nothing.
func TestAsymmetricAllocates(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 1))
	for _, side := range bothSides {
		f := New(kv.Turbo3, 64, Options{Side: side})
		page, _, _ := pageOf(rng, f, Cells)
		s, v := NewScratch(f), []Visit{{Page: page.Read, Rest: page.Rest, Cells: Cells, Used: allCells}}
		q, x, acc := f.NewQueries(3), make([]float32, 3*Cells), make([]float32, 3*f.Padded)
		q.N = 3
		if n := testing.AllocsPerRun(10, func() {
			if side == kv.K {
				f.Scores(x, q, v, s)
			} else {
				f.Accumulate(acc, x, 3, v, s)
			}
		}); n > 0 {
			t.Errorf("%v: %v allocations", side, n)
		}
	}
}

// asymmetricRow returns a row with rotated values on the boundary of two codes.
func asymmetricRow(rng *rand.Rand, dim int) []float32 {
	x := make([]float32, dim)
	for _, i := range rng.Perm(dim)[:2] {
		x[i] = 6
	}
	return x
}

// Cells whose halves are not images of each other are detected, however they
// were stored. They keep their bytes and are read in both halves, even if the
// page also has other cells.
func TestAsymmetric(t *testing.T) {
	for _, side := range bothSides {
		eachTwin(t, side, func(t *testing.T, f *Form) {
			rng := rand.New(rand.NewPCG(32, uint64(f.HeadDim)))
			s := NewScratch(f)
			pages := [3]Page{}
			var values [3][][]float32 // in the rotated domain
			for p := range pages {
				pages[p] = f.Page(make([]byte, f.PageBytes()))
				for c := range Cells {
					x := random(rng, f.HeadDim)
					asymmetric := p == 1 && c%3 == 0
					switch {
					case asymmetric:
						x = asymmetricRow(rng, f.HeadDim)
					case c == 5:
						clear(x)
					case c == 7: // a scale that f16 cannot represent
						for i := range x {
							x[i] *= 1e-9
						}
					}
					row, back := make([]byte, f.RowBytes()), make([]byte, f.RowBytes())
					f.Type.Encode(row, x, kv.At{})
					if f.Put(pages[p], c, row) != asymmetric {
						t.Fatalf("page %d cell %d stored as odd: %v", p, c, !asymmetric)
					}
					if f.Get(back, pages[p], c); !slices.Equal(row, back) {
						t.Fatalf("page %d cell %d: stored % x, leaves % x", p, c, row, back)
					}
					if f.Write(pages[p], c, x, kv.At{}, s); s.Asymmetric != asymmetric {
						t.Fatalf("page %d cell %d written as odd: %v", p, c, s.Asymmetric)
					}
					if f.Get(back, pages[p], c); !slices.Equal(row, back) {
						t.Fatalf("page %d cell %d: written % x, leaves % x", p, c, row, back)
					}
					v := make([]float32, f.Padded)
					f.Type.DecodeRotated(v, row)
					values[p] = append(values[p], v)
				}
			}
			visits := []Visit{{Page: pages[0].Read}, {Page: pages[1].Read, Rest: pages[1].Rest}, {Page: pages[2].Read}}
			const n = 3
			for i := range visits {
				visits[i].At, visits[i].Cells, visits[i].Used = i*n*Cells, Cells, allCells
			}
			far := func() float64 {
				if side == kv.K {
					return farScores(f, rand.New(rand.NewPCG(33, 1)), n, visits, values[:], s)
				}
				return farSums(f, rand.New(rand.NewPCG(33, 1)), n, visits, values[:], s)
			}
			both := far()
			visits[1].Rest = nil
			if one := far(); !(both < 0.01) || !(one > 2*both) {
				t.Errorf("off by %g; by %g where the page is read as if it were even", both, one)
			}
		})
	}
}

// farScores returns the relative error of scores: the root mean square of their difference from the
// scores of the decoded values, divided by that of the scores.
func farScores(f *Form, rng *rand.Rand, n int, visits []Visit, values [][][]float32, s *Scratch) float64 {
	q := f.NewQueries(n)
	q.N = n
	rot := make([][]float32, n)
	for i := range n {
		x := random(rng, f.HeadDim)
		q.Set(i, x)
		rot[i] = make([]float32, f.Padded)
		f.Type.RotateQuery(rot[i], nil, x)
	}
	dst := make([]float32, len(visits)*n*Cells)
	f.Scores(dst, q, visits, s)
	var sum, off float64
	for p := range visits {
		for i := range n {
			for c, v := range values[p] {
				var want float64
				for j := range v {
					want += float64(rot[i][j]) * float64(v[j])
				}
				sum += want * want
				off += math.Pow(want-float64(dst[visits[p].At+i*Cells+c]), 2)
			}
		}
	}
	return math.Sqrt(off / sum)
}

// farSums returns the relative error of finished sums, compared with sums of
// the decoded values.
func farSums(f *Form, rng *rand.Rand, n int, visits []Visit, values [][][]float32, s *Scratch) float64 {
	w := make([]float32, len(visits)*n*Cells)
	for i := range w {
		w[i] = rng.Float32()
	}
	acc := make([]float32, n*f.Padded)
	f.Accumulate(acc, w, n, visits, s)
	var sum, off float64
	for i := range n {
		want := make([]float32, f.Padded)
		for p := range visits {
			for c, v := range values[p] {
				for j := range v {
					want[j] += w[visits[p].At+i*Cells+c] * v[j]
				}
			}
		}
		got, out := make([]float32, f.HeadDim), make([]float32, f.HeadDim)
		f.Finish(got, acc[i*f.Padded:][:f.Padded])
		f.Type.UnrotateOutput(out, want)
		for j := range out {
			sum += float64(out[j]) * float64(out[j])
			off += math.Pow(float64(out[j]-got[j]), 2)
		}
	}
	return math.Sqrt(off / sum)
}
