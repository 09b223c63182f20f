package backendtest

import (
	"fmt"
	"math"
	"os"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/ref"
)

// matrixDims are the head sizes of the attention matrix. They cover every kind
// of padding and of division into blocks.
var matrixDims = []int{40, 64, 80, 96, 112, 128, 192, 256, 512, 576}

// pairDims are the head sizes at which every commit runs all pairs of types.
var pairDims = []int{64, 128, 256}

// matrixHeads are the numbers of KV heads of the attention matrix.
var matrixHeads = []int{1, 2, 3, 4, 8}

// matrixChunks are the numbers of rows per batch of the attention matrix: a
// page and a few rows, single rows, and a chunk inside a page.
var matrixChunks = []int{66, 1, 1, 28}

// pairChunks are the numbers of rows per batch for a pair of types: a page and a
// few rows, a single row, and a chunk. Each type of the pair also runs in the
// matrix with the longer batches.
var pairChunks = []int{65, 1, 4}

// matrixWindows are the exact windows of the attention matrix: less than a page,
// one page, pinned positions only, and more than a page.
var matrixWindows = []kv.Window{{Newest: 1}, {Pinned: 4, Newest: 64}, {Pinned: 3}, {Pinned: 64, Newest: 70}, {Newest: 200}}

// windowChunks are the numbers of rows per batch for exact windows: chunks that end
// inside a page, single rows, and a chunk that moves whole pages out of the window.
var windowChunks = []int{70, 1, 1, 60, 1, 170, 1}

// matrix is a run of AttentionMatrix.
type matrix struct {
	devices    map[string]backend.Backend // key: arithmetic of packed types
	all, short bool
	distortion map[*kv.Type]float64

	// The shape that was checked last, and what its cases share.
	shape shape
	exact *answers // answers of an oracle with an exact cache
	rows  ref.Rows
	sizes map[sizesOf]sizes
}

// The arithmetics of packed types.
const (
	int8Math  = "int8"
	floatMath = "float"
)

// shape determines the inputs of a case.
type shape struct{ heads, kvHeads, dimK, dimV, chunks int }

// AttentionMatrix runs every cache type through write, read and attend. Each
// type runs on each side against f32 on the other side, and with exact windows
// on both sides, in int8 and in float arithmetic. Every pair of types runs at
// heads of 64, 128 and 256 with 2 KV heads, in int8.
//
// With GODWIT_TEST=all, types and pairs run at every head size and number of KV
// heads, in both arithmetics. Without it, each type runs at every head size
// once. With -short, for emulated processors, each type runs at two head sizes
// and with one window, and pairs are skipped.
//
// Types that have the same forms at a head size have the same layout there, which
// runs once.
func AttentionMatrix(t T, d backend.Driver, o backend.Options) {
	o.Unchecked = true
	m := &matrix{
		devices: map[string]backend.Backend{}, all: os.Getenv("GODWIT_TEST") == "all", short: t.Short(),
		distortion: map[*kv.Type]float64{},
	}
	for _, math := range []string{int8Math, floatMath} {
		o.FloatAttn = math == floatMath
		b, err := d.Open(0, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
		m.devices[math] = b
	}
	t.Run("types", m.types)
	t.Run("windows", m.windows)
	if !m.short {
		t.Run("pairs", m.pairs)
	}
}

// check checks a case in the given arithmetics. The oracle runs once for all of
// them.
func (m *matrix) check(t T, a Attention, arithmetics ...string) {
	c := newAttentionCase(t, a)
	s := shape{c.Heads, c.KVHeads, c.DimK, c.DimV, len(c.Chunks)}
	if m.shape != s {
		m.shape, m.exact, m.rows, m.sizes = s, nil, ref.Rows{}, map[sizesOf]sizes{}
	}
	c.known = m.sizes
	oracles := []*answers{{machine: ref.NewSharing(c.plan, &c.layout, m.rows)}}
	if !a.Outliers {
		if m.exact == nil {
			m.exact = &answers{machine: ref.New(c.plan, nil)}
		}
		oracles = append(oracles, m.exact)
	}
	for _, math := range arithmetics {
		t.Run(math, func(t T) {
			c.Float = math == floatMath
			e := c.run(t, m.devices[math], oracles...)
			c.judge(t, e[0])
			if !a.Outliers {
				m.judgeFormat(t, c, e[1])
			}
		})
	}
}

// types checks each type with f32 on the other side.
func (m *matrix) types(t T) {
	for i, typ := range kv.Types() {
		t.Run(typ.Name, func(t T) {
			for j, dim := range matrixDims {
				if m.short && (i+j)%len(matrixDims) > 1 {
					continue
				}
				for k, heads := range matrixHeads {
					if !m.all && (i+j)%len(matrixHeads) != k {
						continue
					}
					group := 1
					if heads <= 2 {
						group += (i + j) % 3
					}
					a := Attention{K: typ.Name, V: "f32", Heads: heads * group, KVHeads: heads, DimK: dim, DimV: dim, Outliers: (i+k)%5 == 4, Chunks: matrixChunks}
					t.Run(fmt.Sprintf("K/%d/%d", dim, heads), func(t T) { m.check(t, a, int8Math, floatMath) })
					a.K, a.V = a.V, a.K
					t.Run(fmt.Sprintf("V/%d/%d", dim, heads), func(t T) { m.check(t, a, int8Math, floatMath) })
				}
			}
		})
	}
}

// windows checks every type with exact windows.
func (m *matrix) windows(t T) {
	for i, typ := range kv.Types() {
		for j, exact := range matrixWindows {
			if m.short && (i+j)%len(matrixWindows) > 0 {
				continue
			}
			dim := matrixDims[(i+3*j)%len(matrixDims)]
			a := Attention{
				K: typ.Name, V: typ.Name, Heads: 4, KVHeads: 2, DimK: dim, DimV: dim, Exact: exact, Outliers: (i+2*j)%5 == 4, Chunks: windowChunks,
			}
			t.Run(fmt.Sprintf("%s/%d/%d/%d", typ.Name, dim, exact.Newest, exact.Pinned), func(t T) { m.check(t, a, int8Math, floatMath) })
		}
	}
}

// pairs checks every pair of types.
func (m *matrix) pairs(t T) {
	if !m.all {
		for _, dim := range pairDims {
			t.Run(fmt.Sprintf("%d/2", dim), func(t T) { m.pairsAt(t, dim, 2, int8Math) })
		}
		return
	}
	for _, dim := range matrixDims {
		for _, heads := range matrixHeads {
			t.Run(fmt.Sprintf("%d/%d", dim, heads), func(t T) { m.pairsAt(t, dim, heads, int8Math, floatMath) })
		}
	}
}

// pairsAt checks every pair of forms at a head size and number of KV heads.
func (m *matrix) pairsAt(t T, dim, heads int, arithmetics ...string) {
	seen := map[[2]*kv.Type]bool{}
	for i, k := range kv.Types() {
		for j, v := range kv.Types() {
			a := Attention{
				K: k.Name, V: v.Name, Heads: heads, KVHeads: heads, DimK: dim, DimV: dim, Outliers: (i+j+dim/8+heads)%5 == 4, Chunks: pairChunks,
			}
			if heads <= 2 {
				a.Heads *= 2
			}
			l := a.layout(t).Layers[0]
			forms := [2]*kv.Type{l.K.Active, l.V.Active}
			if seen[forms] {
				continue
			}
			seen[forms] = true
			t.Run(k.Name+"/"+v.Name, func(t T) { m.check(t, a, arithmetics...) })
		}
	}
}

// judgeFormat compares a run with exact attention. On Gaussian rows, the error of a
// score is the relative error e of its key, so the error of a weight is a factor of
// exp(e). A value has its own error. The relative error of the output is the root
// of the sum of the squares of both errors. The bound is about 1.5 times that,
// because there are only 48 rows.
func (m *matrix) judgeFormat(t T, c *attentionCase, e misses) {
	t.Helper()
	l := &c.layout.Layers[0]
	k, v := m.distortionOf(l.K.Active), m.distortionOf(l.V.Active)
	limit := 1.5*math.Sqrt(math.Expm1(k)+v) + 0.01
	if e.rms() > limit {
		t.Errorf("relative error against exact attention %.4f, at most %.4f: K %.4f, V %.4f", e.rms(), limit, k, v)
	}
}

// distortionOf returns distortion, computed once per type.
func (m *matrix) distortionOf(t *kv.Type) float64 {
	d, ok := m.distortion[t]
	if !ok {
		d = distortion(t)
		m.distortion[t] = d
	}
	return d
}

// distortion returns the mean square error of a type on Gaussian rows, as a share
// of their variance. It is the error of the type's code book. If the levels are
// evenly spaced up to the largest value of a block, it is the error of a uniform
// step, and the largest value is taken as four standard deviations.
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
// variance or for a unit vector, so the scale is the one with the least error.
// With amax, the outermost level is at the largest of 32 values, which is
// nearly always between 1.2 and 3.5 standard deviations.
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
