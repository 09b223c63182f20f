package backendtest

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/ref"
)

// Attention is one attention case.
type Attention struct {
	K, V           string
	Heads, KVHeads int
	DimK, DimV     int
	Window         int
	Softcap        float32
	SinkLogits     bool
	MLA            bool
	Exact          kv.Window
	Chunks         []int // rows of the first sequence in each batch; nil: 150, 1, 70, 1
	Outliers       bool  // some large values in every row
	Hostile        bool  // NaN and infinity in some rows
	Float          bool  // the backend uses float arithmetic for packed types
	Both           bool  // rows see later rows
	Chunk          int   // rows see only their own chunk of this many positions; 0 for all
	ALiBi          float32
	Relative       bool
}

// trellis lists the types whose codes are a path through a trellis, fewest bits
// first.
func trellis() (names []string) {
	types := slices.DeleteFunc(slices.Clone(kv.Types()), func(t *kv.Type) bool { return t.Form(128, kv.K).Codes.Trellis == nil })
	slices.SortFunc(types, func(a, b *kv.Type) int { return cmp.Compare(a.NominalBits(), b.NominalBits()) })
	for _, t := range types {
		names = append(names, t.Name)
	}
	return names
}

// attention checks the plain types and the types whose cells are packed by
// page. AttentionMatrix covers all types.
func (s *suite) attention(t T) {
	codes := trellis()
	for _, a := range []Attention{
		{K: "f32", V: "f32", Heads: 4, KVHeads: 2, DimK: 64, DimV: 64},
		{K: "f16", V: "f16", Heads: 4, KVHeads: 1, DimK: 40, DimV: 40},
		{K: "bf16", V: "f32", Heads: 3, KVHeads: 3, DimK: 96, DimV: 32},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 2, DimK: 32, DimV: 32, Window: 70},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 2, DimK: 32, DimV: 32, Window: 33, SinkLogits: true},
		{K: "f32", V: "f32", Heads: 2, KVHeads: 2, DimK: 32, DimV: 32, Softcap: 2},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 1, DimK: 96, DimV: 64, MLA: true},
		{K: "q4_0", V: "q8_0", Heads: 4, KVHeads: 2, DimK: 64, DimV: 64, Exact: kv.Window{Pinned: 4, Newest: 64}, Softcap: 2},
		{K: "q4_0", V: "f32", Heads: 4, KVHeads: 2, DimK: 32, DimV: 32, Exact: kv.Window{Pinned: 60, Newest: 20}, Window: 90, SinkLogits: true},
		{K: "f16", V: "q4_0", Heads: 4, KVHeads: 2, DimK: 32, DimV: 32, Exact: kv.Window{Pinned: 2, Newest: 100}, Window: 40},
		{K: "q4_0", V: "q4_0", Heads: 4, KVHeads: 1, DimK: 96, DimV: 64, MLA: true, Exact: kv.Window{Pinned: 5, Newest: 65}},
		{K: codes[2], V: codes[0], Heads: 4, KVHeads: 2, DimK: 96, DimV: 128},
		{K: codes[1], V: codes[1], Heads: 4, KVHeads: 2, DimK: 64, DimV: 64, Exact: kv.Window{Pinned: 4, Newest: 64}},
		{K: codes[0], V: codes[2], Heads: 3, KVHeads: 1, DimK: 256, DimV: 80, Exact: kv.Window{Newest: 1}, Softcap: 2, SinkLogits: true},
		{K: codes[2], V: "f16", Heads: 2, KVHeads: 1, DimK: 192, DimV: 96, MLA: true, Exact: kv.Window{Pinned: 1, Newest: 30}},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 2, DimK: 32, DimV: 32, Chunk: 90},
		{K: "f32", V: "f32", Heads: 6, KVHeads: 2, DimK: 32, DimV: 32, ALiBi: 8},
		{K: "q8_0", V: codes[1], Heads: 4, KVHeads: 2, DimK: 64, DimV: 64, ALiBi: 4, SinkLogits: true, Exact: kv.Window{Pinned: 4, Newest: 64}},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 4, DimK: 32, DimV: 32, Relative: true},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 4, DimK: 32, DimV: 32, Relative: true, Both: true, Chunks: []int{150}},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 1, DimK: 32, DimV: 32, Both: true, Window: 41, Chunks: []int{150}},
	} {
		t.Run(fmt.Sprintf("%+v", a), func(t T) {
			c := newAttentionCase(t, a)
			if p := s.compile(t, c.plan, &c.layout, c.sizesOf()); p != nil {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
				CheckAttention(t, s.b, a)
			}
		})
	}
}

// CheckAttention runs one case on a device: two sequences with shuffled pages,
// in chunks and single rows. It compares the result with an oracle that
// computes with the decoded values of the cache types.
func CheckAttention(t T, b backend.Backend, a Attention) {
	t.Helper()
	c := newAttentionCase(t, a)
	c.judge(t, c.run(t, b, &answers{machine: ref.New(c.plan, &c.layout)})[0])
}

// answers holds the rows of an oracle, batch by batch. Each batch is computed
// once, no matter how many runs over the same batches are compared with it.
type answers struct {
	machine *ref.Machine
	batches [][][]float64
}

func (a *answers) of(i int, b *llm.Batch) [][]float64 {
	if i == len(a.batches) {
		a.batches = append(a.batches, a.machine.Run(b))
	}
	return a.batches[i]
}

// misses measures the difference between a run and an oracle.
type misses struct {
	largest     float64
	want2, off2 float64 // sums of squares of the oracle's values and of the differences
}

// rms returns the length of the differences relative to the length of the
// oracle's output.
func (e misses) rms() float64 {
	return math.Sqrt(e.off2 / max(e.want2, math.SmallestNonzeroFloat64))
}

// run runs the chunks of a case on a device and on oracles. The batches are the
// same each time.
func (c *attentionCase) run(t T, b backend.Backend, oracles ...*answers) []misses {
	t.Helper()
	prog, err := b.Compile(context.Background(), c.plan, &c.layout, c.sizesOf())
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	cache, err := pages.New(&c.layout, pages.Options{Copier: prog, Shuffle: rand.New(rand.NewPCG(7, 7))})
	if err != nil {
		t.Fatal(err)
	}
	chunks := c.Chunks
	if chunks == nil {
		chunks = []int{150, 1, 70, 1}
	}
	in := newInput(9)
	list := make([]misses, len(oracles))
	for i, n := range chunks {
		batch := &llm.Batch{}
		for seq := range llm.Seq(2) {
			rows := n
			if seq == 1 {
				rows = max(1, n/2)
			}
			c.add(t, in, batch, cache, seq, rows)
		}
		cache.Fill(batch)
		batch.Logits = make([]float32, len(batch.Outputs)*c.Heads*c.DimV)
		if err := prog.Run(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		for k, oracle := range oracles {
			list[k].add(t, batch.Logits, oracle.of(i, batch))
		}
	}
	return list
}

// sizesOf returns the sizes of the program for a case.
func (c *attentionCase) sizesOf() backend.Sizes {
	s := backend.Sizes{Rows: 256, Outputs: 256, SparseV: c.sparseV}
	for _, g := range c.layout.Groups {
		s.Pages = append(s.Pages, g.Pages)
	}
	return s
}

// add compares the rows of a batch.
func (e *misses) add(t T, got []float32, want [][]float64) {
	t.Helper()
	for r, row := range want {
		for i, w := range row {
			x := float64(got[r*len(row)+i])
			d := math.Abs(x - w)
			if d != d {
				t.Fatalf("row %d column %d is %g, want %g", r, i, x, w)
			}
			e.largest = max(e.largest, d)
			e.want2 += w * w
			e.off2 += d * d
		}
	}
}

type attentionCase struct {
	Attention
	plan    *graph.Plan
	layout  layout.Layout
	input   []float32 // [vocab] rows of q, k and v
	sparseV float32
	top     float64           // largest magnitude of any input
	known   map[sizesOf]sizes // sizes of earlier cases with these inputs; may be nil
}

func newAttentionCase(t T, a Attention) *attentionCase {
	t.Helper()
	in := newInput(8)
	c := &attentionCase{Attention: a}
	qw, kw, vw := a.Heads*a.DimK, a.KVHeads*a.DimK, a.KVHeads*a.DimV
	x := in.floats((qw+kw+vw)*vocab, 1)
	if a.Outliers {
		for i := 5; i < len(x); i += 37 {
			x[i] *= 30
		}
	}
	if a.Hostile {
		a.poison(x)
	}
	for _, v := range x {
		c.top = max(c.top, math.Abs(float64(v)))
	}
	c.input = x
	table := &graph.Weight{Name: "input", Type: dtype.F32, Shape: []int{qw + kw + vw, vocab}, Data: encode(dtype.F32, x)}
	g := graph.NewBuilder()
	y := g.Embed(table, 1, graph.ByToken)
	at := graph.Attention{
		Heads: a.Heads, KVHeads: a.KVHeads, DimK: a.DimK, DimV: a.DimV,
		Scale: float32(1 / math.Sqrt(float64(a.DimK))), Window: a.Window, Softcap: a.Softcap, MLA: a.MLA, RopeBase: 10000,
	}
	at.Bidirectional, at.Chunk, at.Bias.ALiBi = a.Both, a.Chunk, a.ALiBi
	if a.Relative {
		at.Bias.Relative = in.weight("distances", dtype.F32, a.Heads, 32)
	}
	if a.SinkLogits {
		at.SinkLogits = in.weight("sinks", dtype.F32, a.Heads)
	}
	v := g.Slice(y, 0, qw+kw, vw)
	if a.MLA {
		v = graph.None
	}
	var err error
	c.plan, err = g.Finish(g.Gather(g.Attend(g.Slice(y, 0, 0, qw), g.Slice(y, 0, qw, kw), v, at)))
	if err != nil {
		t.Fatal(err)
	}
	c.layout = a.layout(t)
	return c
}

// layout resolves the types of a case.
func (a *Attention) layout(t T) layout.Layout {
	t.Helper()
	var want layout.Want
	var err error
	if want.K, err = kv.Parse(a.K); err == nil {
		want.V, err = kv.Parse(a.V)
	}
	if err != nil {
		t.Fatal(err)
	}
	zero, window := 0, a.Window
	if a.Both {
		window = 0
	}
	l, err := layout.Resolve(want, []layout.LayerInfo{{
		Cached: true, Heads: a.Heads, KVHeads: a.KVHeads, HeadDimK: a.DimK, HeadDimV: a.DimV,
		Window: window, Share: -1, MLA: a.MLA, RopeBase: 10000, Bidirectional: a.Both,
	}}, layout.Settings{
		Cells: 1024, Seqs: 2, UBatch: 256, Policy: &zero, AutoAsymmetric: layout.Off, SWABypass: layout.Off,
		ExactWindow: &a.Exact.Newest, ExactSinks: &a.Exact.Pinned,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// add appends rows of a sequence to a batch.
func (c *attentionCase) add(t T, in *input, b *llm.Batch, cache *pages.Cache, seq llm.Seq, rows int) {
	t.Helper()
	have, first := cache.Len(seq), len(b.Tokens)
	if err := cache.Extend(seq, rows); err != nil {
		t.Fatal(err)
	}
	for r := range rows {
		b.Tokens = append(b.Tokens, llm.Token(in.rng.IntN(vocab)))
		b.Pos = append(b.Pos, int32(have+r))
		b.Outputs = append(b.Outputs, int32(first+r))
	}
	b.Spans = append(b.Spans, llm.Span{Seq: seq, First: first, Rows: rows, Len: have + rows})
}
