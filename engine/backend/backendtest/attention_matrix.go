package backendtest

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/ref"
)

// matrixDims are the head sizes of the attention matrix, every kind of padding
// and of cutting into blocks among them.
var matrixDims = []int{40, 64, 80, 96, 112, 128, 192, 256, 512, 576}

// pairDims are those at which every commit runs pairs of types.
var pairDims = []int{64, 128, 256}

// matrixHeads are its numbers of KV heads.
var matrixHeads = []int{1, 2, 3, 4, 8}

// matrixChunks are the rows of its batches: a page and a bit, single rows, and
// a chunk inside a page.
var matrixChunks = []int{66, 1, 1, 28}

// matrixWindows are its exact windows: none of a page, one, about one, more.
var matrixWindows = []kv.Window{{Newest: 1}, {Sinks: 4, Newest: 64}, {Sinks: 3}, {Sinks: 64, Newest: 70}, {Newest: 200}}

// windowChunks are the rows of their batches: chunks that end inside a page,
// single rows, and one that leaves pages behind.
var windowChunks = []int{70, 1, 1, 60, 1, 170, 1}

// AttentionMatrix runs every cache type through write, read and attend: each
// on each side against f32 on the other at every head size and number of KV
// heads, each with exact windows on both sides, and every pair at heads of 64, 128 and 256. Without GODWIT_TEST=all
// each type meets every head size once and each pair one of the three, in
// float arithmetic none. With -short, for processors that are emulated, each
// type meets two head sizes and no other type.
func AttentionMatrix(t *testing.T, d backend.Driver, o backend.Options) {
	b, err := d.Open(0, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	all, short := os.Getenv("GODWIT_TEST") == "all", testing.Short()
	n := 0
	check := func(t *testing.T, a Attention) {
		if a.Chunks = matrixChunks; a.Exact != (kv.Window{}) {
			a.Chunks = windowChunks
		}
		a.Float, a.Outliers = o.FloatAttn, n%5 == 4
		n++
		c := newAttentionCase(t, a)
		e := c.run(t, b, ref.New(c.plan, &c.layout), ref.New(c.plan, nil))
		c.judge(t, e[0])
		if !a.Outliers {
			c.judgeFormat(t, e[1])
		}
	}
	t.Run("types", func(t *testing.T) {
		for i, typ := range kv.Types() {
			t.Run(typ.Name, func(t *testing.T) {
				for j, dim := range matrixDims {
					if short && (i+j)%len(matrixDims) > 1 {
						continue
					}
					for k, heads := range matrixHeads {
						if !all && (i+j)%len(matrixHeads) != k {
							continue
						}
						group := 1
						if heads <= 2 {
							group += (i + j) % 3
						}
						a := Attention{K: typ.Name, V: "f32", Heads: heads * group, KVHeads: heads, DimK: dim, DimV: dim}
						t.Run(fmt.Sprintf("K/%d/%d", dim, heads), func(t *testing.T) { check(t, a) })
						a.K, a.V = a.V, a.K
						t.Run(fmt.Sprintf("V/%d/%d", dim, heads), func(t *testing.T) { check(t, a) })
					}
				}
			})
		}
	})
	t.Run("windows", func(t *testing.T) { windowMatrix(t, check) })
	dims := pairDims
	if all {
		dims = matrixDims
	}
	t.Run("pairs", func(t *testing.T) {
		for i, k := range kv.Types() {
			for j, v := range kv.Types() {
				for m, dim := range dims {
					if short || !all && ((i+j)%len(dims) != m || o.FloatAttn) {
						continue
					}
					a := Attention{K: k.Name, V: v.Name, Heads: 4, KVHeads: 2, DimK: dim, DimV: dim}
					if !slices.Contains(pairDims, dim) {
						a.KVHeads = matrixHeads[(i+j+m)%len(matrixHeads)]
						a.Heads = a.KVHeads * (1 + (i+j)%2)
					}
					t.Run(fmt.Sprintf("%s/%s/%d", k.Name, v.Name, dim), func(t *testing.T) { check(t, a) })
				}
			}
		}
	})
}

// windowMatrix checks every type with exact windows.
func windowMatrix(t *testing.T, check func(*testing.T, Attention)) {
	for i, typ := range kv.Types() {
		for j, exact := range matrixWindows {
			if testing.Short() && (i+j)%len(matrixWindows) > 0 {
				continue
			}
			dim := matrixDims[(i+3*j)%len(matrixDims)]
			a := Attention{K: typ.Name, V: typ.Name, Heads: 4, KVHeads: 2, DimK: dim, DimV: dim, Exact: exact}
			t.Run(fmt.Sprintf("%s/%d/%d/%d", typ.Name, dim, exact.Newest, exact.Sinks), func(t *testing.T) { check(t, a) })
		}
	}
}

// judgeFormat compares a run with exact attention. On Gaussian rows a score is
// off by the relative error of its key, so a weight by e to that, and a value
// by its own: what the output is off by, as a share of its length, is the root
// of the sum of both squares. Half as much again allows for 48 rows only.
func (c *attentionCase) judgeFormat(t *testing.T, e misses) {
	t.Helper()
	l := &c.layout.Layers[0]
	k, v := distortion(l.K.Active), distortion(l.V.Active)
	limit := 1.5*math.Sqrt(math.Expm1(k)+v) + 0.01
	if e.rms() > limit {
		t.Errorf("relative error against exact attention %.4f, at most %.4f: K %.4f, V %.4f", e.rms(), limit, k, v)
	}
}

// distortion is the mean square error of a type on Gaussian rows, as a share
// of their variance: that of its code book, or of a uniform step where levels
// are spread over the largest value of a block, taken as four standard
// deviations.
func distortion(t *kv.Type) float64 {
	if t == nil {
		return 0
	}
	if t.Join != nil {
		t = t.Join[0].Form
	}
	c := &t.Codes
	switch {
	case t.Float:
		return 0x1p-16
	case c.Levels == nil:
		return step(1. / 127)
	case c.Boundaries == nil:
		var gap, top float64
		for i, l := range c.Levels {
			top = max(top, math.Abs(float64(l)))
			if i > 0 {
				gap = max(gap, float64(l-c.Levels[i-1]))
			}
		}
		if t.Scale.Affine {
			top /= 2 // the levels span both tails
		}
		return step(gap / top)
	}
	return bookDistortion(c, t.Scale.Rule == kv.OuterAmax)
}

func step(share float64) float64 { return 16 * share * share / 12 }

// bookDistortion integrates over the cells of a code book. Books are for unit
// variance, or for a unit vector: the unit is that with the least error. With
// amax the outermost level lies at the largest of 32 values, between 1.2 and
// 3.5 standard deviations nearly always.
func bookDistortion(c *kv.Codes, amax bool) float64 {
	error := func(unit float64) (sum float64) {
		const steps = 4000
		for i := range steps {
			x := (float64(i)+0.5)/steps*12 - 6
			k := 0
			for k < len(c.Boundaries) && float64(c.Boundaries[k])*unit <= x {
				k++
			}
			d := x - float64(c.Levels[k])*unit
			sum += d * d * math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) * 12 / steps
		}
		return sum
	}
	top := float64(c.Levels[len(c.Levels)-1])
	best := math.Inf(1)
	for sd := 1.2; sd < 3.6; sd += 0.05 {
		best = min(best, error(sd/top))
	}
	if amax {
		return max(error(1.2/top), error(3.5/top))
	}
	return best
}
