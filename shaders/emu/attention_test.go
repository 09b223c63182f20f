//go:build linux || darwin

package emu

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/ref"
	"godwit/shaders"
)

// attendCase computes attention for the last rows of a sequence.
type attendCase struct {
	k, v                *kv.Type
	heads, kvHeads      int
	dimK, dimV          int
	cells, rows         int // positions of the sequence, and number of rows
	parts, tile         int // 0 means 1
	window              int
	cap                 float32
	sparse              float32
	temper              kv.Temper
	withSinkLogits, mla bool
	both                bool                // bidirectional
	still               bool                // all keys are equal
	sharp               bool                // queries are four times as long
	edit                func(string) string // edits the source of attend and attend_combine
}

// inputs are q, k and v of all positions.
func (c *attendCase) inputs() (q, k, v []float32) {
	q, k, v = normal(1, c.cells*c.heads*c.dimK), normal(2, c.cells*c.kvHeads*c.dimK), normal(3, c.cells*c.kvHeads*c.dimV)
	for i := range q {
		if c.sharp {
			q[i] *= 4
		}
	}
	if c.still {
		for i := range k {
			k[i] = k[i%(c.kvHeads*c.dimK)]
		}
	}
	return q, k, v
}

// sinkLogits is the extra logit of each head.
func (c *attendCase) sinkLogits() []float32 { return normal(4, c.heads) }

// oracle returns the output of the rows, computed in float64.
func (c *attendCase) oracle(t *testing.T) []float64 {
	t.Helper()
	q, k, v := c.inputs()
	o := newOracle(t, c.cells)
	for i := range o.batch.Pos {
		o.batch.Pos[i] = int32(i)
	}
	o.batch.Spans = []llm.Span{{Rows: c.cells, Len: c.cells}}
	a := graph.Attention{
		Heads: c.heads, KVHeads: c.kvHeads, DimK: c.dimK, DimV: c.dimV, Scale: c.scale(), Softcap: c.cap,
		Window: c.window, MLA: c.mla, Bidirectional: c.both,
	}
	if c.withSinkLogits {
		a.SinkLogits = weight(c.sinkLogits(), c.heads)
	}
	values := graph.None
	if !c.mla {
		values = o.value(v)
	}
	p, err := o.Finish(o.Attend(o.value(q), o.value(k), values, a))
	if err != nil {
		t.Fatal(err)
	}
	l := &layout.Layout{Layers: []layout.Layer{{K: layout.Side{Active: c.k}, V: layout.Side{Active: c.v}, Temper: c.temper}}}
	var flat []float64
	for _, row := range ref.New(p, l).Run(&o.batch)[c.cells-c.rows:] {
		flat = append(flat, row...)
	}
	return flat
}

func (c *attendCase) scale() float32 { return float32(1 / math.Sqrt(float64(c.dimK))) }

// pages returns an unordered page table, after two entries of another sequence.
func (c *attendCase) pages() (tables []int32, n int) {
	n = (c.cells+63)/64 + 1
	tables = []int32{0, 0}
	for i := range n - 1 {
		tables = append(tables, int32((i*7+3)%(n-1)))
	}
	seen := map[int32]bool{}
	for i, p := range tables[2:] { // 7 may divide the number of pages
		for seen[p] {
			p = (p + 1) % int32(n)
		}
		seen[p], tables[2+i] = true, p
	}
	return tables, n
}

// fill returns a cache with the rows of x in the format's own bytes. The rest of it
// is NaN in every float type.
func (c *attendCase) fill(t *kv.Type, x []float32, dim int) []byte {
	tables, n := c.pages()
	size := t.RowBytes(dim)
	cache := make([]byte, n*c.kvHeads*64*size)
	for i := range cache {
		cache[i] = 0xff
	}
	for pos := range c.cells {
		for h := range c.kvHeads {
			at := ((int(tables[2+pos/64])*c.kvHeads+h)*64 + pos%64) * size
			t.Encode(cache[at:at+size], x[(pos*c.kvHeads+h)*dim:][:dim], kv.At{Pos: pos})
		}
	}
	return cache
}

// counts are the counters of attend.
type counts struct{ considered, skipped, read uint64 }

// run runs attention on every device and returns the output.
func (c *attendCase) run(t *testing.T) ([]float32, counts) {
	t.Helper()
	y, n, err := c.try(t)
	if err != nil {
		t.Fatal(err)
	}
	return y, n
}

// try is run for kernels that may be faulty.
func (c *attendCase) try(t *testing.T) ([]float32, counts, error) {
	t.Helper()
	q, k, v := c.inputs()
	q = q[(c.cells-c.rows)*c.heads*c.dimK:]
	kc, err := shaders.NewCache(c.k, c.dimK, 0)
	if err != nil {
		t.Fatal(err)
	}
	kCache := c.fill(c.k, k, c.dimK)
	vc, vCache := kc.View(c.dimV), kCache
	if !c.mla {
		if vc, err = shaders.NewCache(c.v, c.dimV, 0); err != nil {
			t.Fatal(err)
		}
		vCache = c.fill(c.v, v, c.dimV)
	}
	a, err := shaders.NewAttention(kc, vc, c.heads, c.kvHeads, max(1, c.tile))
	if err != nil {
		t.Fatal(err)
	}
	tables, _ := c.pages()
	var rows, tiles []int32
	for r := range c.rows {
		rows = append(rows, int32(c.cells-c.rows+r), int32(c.cells), 2, 0)
		if r%a.Rows == 0 {
			tiles = append(tiles, int32(r), int32(min(a.Rows, c.rows-r)))
		}
	}
	rotated, res := c.rotate(t, kc, q)
	a.Params.Parts = uint32(max(1, c.parts))
	a.Params.Window, a.Params.Cap, a.Params.Scale, a.Params.SparseV = uint32(c.window), c.cap, c.scale(), c.sparse
	a.Params.Sharpen, a.Params.Soften = c.temper.Sharpen, c.temper.Soften
	if c.both {
		a.Params.Bidirectional = 1
	}
	out, err := once{
		kernel: "attend", constants: a.Constants, params: shaders.Bytes(&a.Params), edit: c.edit,
		grid: [3]uint32{a.Params.Parts, uint32(a.Slices()), uint32(len(tiles) / 2)},
		args: map[string][]byte{
			"q": rotated, "res": res, "rows": raw(rows), "tables": raw(tables), "tiles": raw(tiles), "k_cache": kCache, "v_cache": vCache,
			"k_form": raw(kc.Table()), "v_form": raw(vc.Table()), "partial": nans(a.PartialFloats(c.rows)), "counts": make([]byte, 24),
		},
	}.try()
	if err != nil {
		return nil, counts{}, err
	}
	sinks := 0
	if c.withSinkLogits {
		sinks = 1
	}
	l := vc.Combine(c.heads, int(a.Params.Parts), sinks, false)
	merged, err := once{
		kernel: "attend_combine", constants: l.Constants, params: l.Params, edit: c.edit, grid: [3]uint32{uint32(c.heads), uint32(c.rows), 1},
		args: map[string][]byte{
			"partial": out["partial"], "sinks": raw(c.sinkLogits()), "form": raw(l.Table), "y": nans(c.rows * c.heads * c.dimV),
		},
	}.try()
	if err != nil {
		return nil, counts{}, err
	}
	n := out["counts"]
	return as[float32](merged["y"]), counts{binary.LittleEndian.Uint64(n), binary.LittleEndian.Uint64(n[8:]), binary.LittleEndian.Uint64(n[16:])}, nil
}

// rotate returns the queries in the domain of the keys, and the residual's vector.
func (c *attendCase) rotate(t *testing.T, kc *shaders.Cache, q []float32) (rotated, res []byte) {
	t.Helper()
	if !kc.Rotates() {
		return raw(q), make([]byte, 64)
	}
	rotated, res = nans(c.rows*c.heads*kc.Lanes), make([]byte, 4*c.rows*c.heads*kc.Lanes)
	for _, l := range kc.Query(c.heads) {
		out := once{
			kernel: "kv_query", constants: l.Constants, params: l.Params, grid: [3]uint32{l.X, uint32(c.heads), uint32(c.rows)},
			args: map[string][]byte{"x": raw(q), "form": raw(l.Table), "y": rotated, "res": res},
		}.run(t)
		rotated, res = out["y"], out["res"]
	}
	return rotated, res
}

// bound is the error that the arithmetic explains. A score is a sum of about 4·dimK
// rounded terms that are at most the product of the lengths and have random signs,
// so six standard deviations are allowed. A weight has the relative error of its
// score, and the output has that share of the spread of V, whose sum over the cells
// also rounds.
func (c *attendCase) bound() float64 {
	q, k, v := c.inputs()
	if c.mla {
		v = k
	}
	const eps = 0x1p-24
	lengths := longest(q, c.dimK) * longest(k, c.dimK)
	if c.k.HasResidual() {
		lengths *= 2 // a residual is at most as long as its key
	}
	score := 6 * math.Sqrt(4*float64(c.dimK)) * eps * lengths * float64(c.scale())
	return score*2*4 + 6*math.Sqrt(4*1024)*eps*longest(v, c.dimV)/math.Sqrt(float64(c.dimV))*4
}

// longest returns the length of the longest of rows of n values.
func longest(x []float32, n int) (most float64) {
	for ; len(x) > 0; x = x[n:] {
		var s float64
		for _, v := range x[:n] {
			s += float64(v) * float64(v)
		}
		most = max(most, math.Sqrt(s))
	}
	return most
}

func (c *attendCase) check(t *testing.T, what string) {
	t.Helper()
	if err := c.judge(t); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// judge compares a case with its oracle.
func (c *attendCase) judge(t *testing.T) error {
	t.Helper()
	got, _, err := c.try(t)
	if err != nil {
		return err
	}
	bound := c.bound()
	return differ(got, c.oracle(t), func(int) float64 { return bound })
}

// typed is a form at a head size.
func typed(t *testing.T, name string, dim int) *kv.Type {
	t.Helper()
	named, err := kv.ParseForm(name)
	if err != nil {
		t.Fatal(err)
	}
	form, err := named.Hold(dim)
	if err != nil {
		t.Fatal(err)
	}
	return form
}

// TestAttendForms reads every form as K and V. Forms with a residual are only read
// as K.
func TestAttendForms(t *testing.T) {
	for _, named := range kv.Forms() {
		t.Run(named.Name, func(t *testing.T) {
			for _, dim := range []int{64, 80, 128, 256, 576} {
				form, err := named.Hold(dim)
				if err != nil {
					continue
				}
				v := form
				if form.HasResidual() {
					v = kv.F16
				}
				c := attendCase{k: form, v: v, heads: 3, kvHeads: 1, dimK: dim, dimV: dim, cells: 150, rows: 2, tile: 2}
				c.check(t, fmt.Sprintf("head %d", dim))
			}
		})
	}
}

// TestAttendOps covers the features of ops and layouts.
func TestAttendOps(t *testing.T) {
	turbo := typed(t, "turbo3", 128)
	for _, c := range []attendCase{
		{k: kv.F32, v: kv.F32, heads: 4, kvHeads: 2, dimK: 64, dimV: 32, cells: 70, rows: 70, tile: 4},
		{k: kv.F16, v: kv.F16, heads: 9, kvHeads: 1, dimK: 20, dimV: 12, cells: 100, rows: 1},
		{k: kv.F16, v: turbo, heads: 4, kvHeads: 2, dimK: 128, dimV: 128, cells: 1300, rows: 3, parts: 2},
		{k: turbo, v: kv.F16, heads: 4, kvHeads: 2, dimK: 128, dimV: 128, cells: 1300, rows: 3, parts: 8, tile: 8},
		{k: kv.F16, v: kv.F16, heads: 2, kvHeads: 1, dimK: 64, dimV: 64, cells: 1300, rows: 5, window: 600, parts: 2, tile: 4},
		{k: kv.F16, v: kv.F16, heads: 2, kvHeads: 1, dimK: 64, dimV: 64, cells: 600, rows: 4, window: 3, tile: 4, withSinkLogits: true},
		{k: kv.F16, v: kv.F16, heads: 2, kvHeads: 2, dimK: 64, dimV: 64, cells: 90, rows: 90, cap: 2, tile: 8},
		{k: kv.F16, v: kv.F16, heads: 2, kvHeads: 1, dimK: 64, dimV: 64, cells: 90, rows: 90, both: true, tile: 8},
		{k: typed(t, "tbq3_2", 64), v: kv.F16, heads: 2, kvHeads: 1, dimK: 64, dimV: 64, cells: 300, rows: 2, temper: typed(t, "tbq3_2", 64).Temper},
		{k: typed(t, "tbq3_0", 256), v: kv.F16, heads: 2, kvHeads: 1, dimK: 256, dimV: 256, cells: 300, rows: 2, temper: typed(t, "tbq3_0", 256).Temper},
		{k: kv.F16, heads: 16, kvHeads: 1, dimK: 96, dimV: 64, cells: 80, rows: 3, mla: true},
		{k: kv.Q8_0, heads: 3, kvHeads: 1, dimK: 576, dimV: 512, cells: 80, rows: 3, mla: true},
		{k: typed(t, "tbq3_4", 576), heads: 3, kvHeads: 1, dimK: 576, dimV: 512, cells: 80, rows: 3, mla: true},
		{k: typed(t, "tbqp3_4", 576), heads: 3, kvHeads: 1, dimK: 576, dimV: 512, cells: 80, rows: 3, mla: true},
	} {
		c.check(t, fmt.Sprintf("%s %s %+v", c.k.Name, name(c.v), c))
	}
}

func name(t *kv.Type) string {
	if t == nil {
		return "view"
	}
	return t.Name
}

// TestAttendTiles checks that the tiling of rows changes no bit.
func TestAttendTiles(t *testing.T) {
	c := attendCase{k: typed(t, "turbo3", 128), v: kv.Q8_0, heads: 2, kvHeads: 1, dimK: 128, dimV: 128, cells: 700, rows: 9}
	c.tile = 1
	one, _ := c.run(t)
	c.tile = 4
	four, _ := c.run(t)
	for i := range one {
		if one[i] != four[i] {
			t.Fatalf("value %d is %g alone and %g in a tile", i, one[i], four[i])
		}
	}
}

// sparseWant returns what attend must count for one row with f32 keys. Weights are
// compared with the largest weight among their 512 positions, and a row of V is
// read if any query head of its KV head keeps it. The output is the sum over the
// kept weights, divided by the sum of all weights.
func (c *attendCase) sparseWant() (n counts, out []float64) {
	q, k, v := c.inputs()
	q = q[(c.cells-1)*c.heads*c.dimK:]
	group := c.heads / c.kvHeads
	kept := map[[2]int]bool{}
	for h := range c.heads {
		acc, sum, top := make([]float64, c.dimV), 0.0, math.Inf(-1)
		for first := 0; first < c.cells; first += shaders.ChunkCells {
			logits, most := []float64{}, math.Inf(-1)
			for pos := first; pos < min(first+shaders.ChunkCells, c.cells); pos++ {
				var dot float64
				for i := range c.dimK {
					dot += float64(q[h*c.dimK+i]) * float64(k[(pos*c.kvHeads+h/group)*c.dimK+i])
				}
				logits = append(logits, dot*float64(c.scale()))
				most = max(most, logits[len(logits)-1])
			}
			fade := math.Exp(top - max(top, most))
			top = max(top, most)
			sum *= fade
			for i := range acc {
				acc[i] *= fade
			}
			for i, l := range logits {
				w := math.Exp(l - most)
				n.considered++
				sum += math.Exp(l - top)
				if float32(w) < c.sparse {
					n.skipped++
					continue
				}
				kept[[2]int{h / group, first + i}] = true
				for j := range acc {
					acc[j] += math.Exp(l-top) * float64(v[((first+i)*c.kvHeads+h/group)*c.dimV+j])
				}
			}
		}
		for _, a := range acc {
			out = append(out, a/sum)
		}
	}
	n.read = uint64(len(kept))
	return n, out
}

// judgeSparse compares the counts and the output of a case with sparseWant.
func (c *attendCase) judgeSparse(t *testing.T) error {
	t.Helper()
	got, n, err := c.try(t)
	if err != nil {
		return err
	}
	want, out := c.sparseWant()
	if n != want {
		return fmt.Errorf("counted %+v, want %+v", n, want)
	}
	bound := c.bound()
	return differ(got, out, func(int) float64 { return bound })
}

func TestSparseV(t *testing.T) {
	c := attendCase{k: kv.F32, v: kv.F32, heads: 4, kvHeads: 2, dimK: 64, dimV: 64, cells: 1300, rows: 1, parts: 2, sparse: 1e-3, sharp: true}
	if want, _ := c.sparseWant(); want.skipped < want.considered/2 || want.read == uint64(c.kvHeads*c.cells) {
		t.Fatalf("the case skips too little to tell: %+v", want)
	}
	if err := c.judgeSparse(t); err != nil {
		t.Error(err)
	}
	c.still = true
	if _, n := c.run(t); n.skipped != 0 || n.read != uint64(c.kvHeads*c.cells) {
		t.Errorf("all logits alike: counted %+v", n)
	}
}
