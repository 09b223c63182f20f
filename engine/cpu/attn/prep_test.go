package attn

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/kv"
)

// rough returns rows at the limits of encoders: NaN, infinity, zeros, large and
// tiny values, ties.
func rough(rng *rand.Rand, n int) [][]float32 {
	var list [][]float32
	for i := range 24 {
		x := random(rng, n)
		at := rng.IntN(n)
		switch i {
		case 1:
			clear(x)
		case 2:
			x[at] = float32(math.NaN())
		case 3:
			x[at] = float32(math.Inf(1))
		case 4:
			x[at] = float32(math.Inf(-1))
			x[rng.IntN(n)] = float32(math.Inf(1))
		case 5:
			x[at] = 1e5
		case 6, 7:
			for j := range x {
				x[j] *= []float32{1e-42, 1e30}[i-6]
			}
		case 8:
			clear(x)
			x[at] = 1
		case 9: // halfway between multiples of a 127th
			for j := range x {
				x[j] = float32(rng.IntN(254)-127) + 0.5
			}
			x[at] = 127
		case 10:
			for j := range x {
				x[j] = 65504 * float32(1+rng.IntN(2))
			}
		case 11:
			clear(x)
			x[at] = float32(math.Copysign(0, -1))
		case 12:
			clear(x)
			x[at] = 3e-39
		}
		list = append(list, x)
	}
	return list
}

// Rows that Write encodes have the same bytes and the same count of saturated
// blocks as with the type's own encoder.
func TestWrite(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		eachForm(t, bothSides, func(t *testing.T, typ *kv.Type, dim int, s kv.Side) {
			rng := rand.New(rand.NewPCG(11, uint64(dim)))
			f := New(typ, dim, Options{Side: s})
			scratch := NewScratch(f)
			page := f.Page(randomBytes(rng, f.PageBytes()))
			want, got := make([]byte, f.RowBytes()), make([]byte, f.RowBytes())
			for i, x := range rough(rng, dim) {
				at := kv.At{Pos: i}
				saturated := typ.Encode(want, x, at)
				n := f.Write(page, (i*7)%Cells, x, at, scratch)
				f.Get(got, page, (i*7)%Cells)
				if !bytes.Equal(got, want) || n != saturated {
					t.Fatalf("row %d is %x with %d blocks saturated, its type says %x with %d", i, got, n, want, saturated)
				}
			}
		})
	})
}

// Queries and outputs are rotated to the same bits as by the type.
func TestRotation(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		eachForm(t, bothSides, func(t *testing.T, typ *kv.Type, dim int, s kv.Side) {
			rng := rand.New(rand.NewPCG(12, uint64(dim)))
			f := New(typ, dim, Options{Side: s})
			if s == kv.K {
				q := f.NewQueries(1)
				rot, res := make([]float32, f.Padded), make([]float32, f.Padded)
				x := random(rng, dim)
				q.Set(0, x)
				typ.RotateQuery(rot, res, x)
				same(t, "query", q.rot, rot)
				if q.res != nil {
					same(t, "second query", q.res, res)
				}
			}
			for _, n := range []int{dim, min(dim, 512)} {
				acc := random(rng, f.Padded)
				got, want := make([]float32, n), make([]float32, n)
				given := slices.Clone(acc)
				if p, ok := f.segments[0].(*codes); ok && p.twin != nil { // finished in the first half
					p.twin.mirror(acc)
					copy(given[p.values:], slices.Repeat([]float32{float32(math.NaN())}, p.values))
				}
				f.Finish(got, given)
				typ.UnrotateOutput(want, acc)
				same(t, "output", got, want)
			}
		})
	})
}

func TestPrepKernels(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(13, 13))
		for _, n := range []int{8, 32, 64, 128, 512, 1024} {
			for i, x := range rough(rng, n) {
				what := fmt.Sprintf("%d values, row %d: ", n, i)
				same(t, what+"largest", []float32{maxAbs(x)}, []float32{maxAbsGeneric(x)})
				got, want := make([]byte, 2*n), make([]byte, 2*n)
				toHalf(got, x)
				toHalfGeneric(want, x)
				if !bytes.Equal(got, want) {
					t.Fatalf("%sf16 %x, plain Go says %x", what, got, want)
				}
				bounds := random(rng, 7)
				slices.Sort(bounds)
				codesOf(got[:n], x, bounds)
				codesOfGeneric(want, x, bounds)
				if !bytes.Equal(got[:n], want[:n]) {
					t.Fatalf("%scodes %x, plain Go says %x", what, got[:n], want[:n])
				}
				amax := maxAbs(x)
				inv := 127 / amax
				if n%32 == 0 && amax >= tiny {
					a, b := make([]int8, n*panel), make([]int8, n*panel)
					if p, q := roundInt8(a, x, inv), roundInt8Generic(b, x, inv); p != q || !slices.Equal(a, b) {
						t.Fatalf("%sint8 %v (%d), plain Go says %v (%d)", what, a, p, b, q)
					}
					c, d := make([]float32, n), make([]float32, n)
					remainder(c, x, inv, amax/127)
					remainderGeneric(d, x, inv, amax/127)
					if i != 2 && i != 3 && i != 4 {
						same(t, what+"remainder", c, d)
					}
				}
				if amax >= tiny && amax-amax == 0 && i != 2 {
					roundAway(got[:n], x, inv)
					roundAwayGeneric(want, x, inv)
					if !bytes.Equal(got[:n], want[:n]) {
						t.Fatalf("%srounded %v, plain Go says %v", what, got[:n], want[:n])
					}
				}
				if n >= 32 && i != 2 && i != 3 && i != 4 {
					y := slices.Clone(x)
					pre, post := random(rng, n), random(rng, n)
					hadamard(x, pre, post, 0.3)
					hadamardGeneric(y, pre, post, 0.3)
					same(t, what+"transform", x, y)
				}
			}
		}
	})
}

// Dot products of four rows at once equal those of kernel.Dot, and quotients
// equal divisions.
func TestDotsAndQuotients(t *testing.T) {
	eachTier(t, func(t *testing.T) {
		rng := rand.New(rand.NewPCG(21, 21))
		for _, values := range []int{32, 40, 64, 96, 256} {
			const n = 5
			q, x := random(rng, n*values), random(rng, abreast*values)
			for rows := 1; rows <= abreast; rows++ {
				got := random(rng, n*Cells)
				want := slices.Clone(got)
				dots(got, q, x, values, n, rows)
				dotsGeneric(want, q, x, values, n, rows)
				if !slices.Equal(got, want) {
					t.Errorf("%d values, %d rows: products differ", values, rows)
				}
			}
			got, want := make([]float32, values), make([]float32, values)
			Quotients(got, q[:values], x[:values])
			quotientsGeneric(want, q[:values], x[:values])
			if !slices.Equal(got, want) {
				t.Errorf("%d values: quotients differ", values)
			}
		}
	})
}
