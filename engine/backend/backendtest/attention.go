package backendtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
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
	Sinks          bool
	MLA            bool
	Chunks         []int   // rows of each batch; nil: 150, 1, 70, 1
	Outliers       bool    // a few large values in every row
	Bound          float64 // times the largest |V|; 0: float arithmetic
}

// attention checks the plain types; the matrix over all types is
// AttentionMatrix.
func (s *suite) attention(t *testing.T) {
	for _, a := range []Attention{
		{K: "f32", V: "f32", Heads: 4, KVHeads: 2, DimK: 64, DimV: 64},
		{K: "f16", V: "f16", Heads: 4, KVHeads: 1, DimK: 40, DimV: 40},
		{K: "bf16", V: "f32", Heads: 3, KVHeads: 3, DimK: 96, DimV: 32},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 2, DimK: 32, DimV: 32, Window: 70},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 2, DimK: 32, DimV: 32, Window: 33, Sinks: true},
		{K: "f32", V: "f32", Heads: 2, KVHeads: 2, DimK: 32, DimV: 32, Softcap: 2},
		{K: "f32", V: "f32", Heads: 4, KVHeads: 1, DimK: 96, DimV: 64, MLA: true},
	} {
		t.Run(fmt.Sprintf("%+v", a), func(t *testing.T) { CheckAttention(t, s.b, a) })
	}
}

// CheckAttention runs one case on a device: two sequences whose pages are
// shuffled, in chunks and single rows, against the oracle over the values
// that the cache types give back.
func CheckAttention(t *testing.T, b backend.Backend, a Attention) {
	t.Helper()
	c := newAttentionCase(t, a)
	sizes := backend.Sizes{Rows: 256, Outputs: 256}
	for _, g := range c.layout.Groups {
		sizes.Pages = append(sizes.Pages, g.Pages)
	}
	prog, err := b.Compile(context.Background(), c.plan, &c.layout, sizes)
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	cache, err := kv.New(&c.layout, kv.Options{Copier: prog, Shuffle: rand.New(rand.NewPCG(7, 7))})
	if err != nil {
		t.Fatal(err)
	}
	oracle := ref.New(c.plan, &c.layout)
	chunks := a.Chunks
	if chunks == nil {
		chunks = []int{150, 1, 70, 1}
	}
	in := newInput(9)
	for step, n := range chunks {
		batch := &llm.Batch{}
		for seq := range llm.Seq(2) {
			rows := n
			if seq == 1 {
				rows = max(1, n/2)
			}
			c.add(t, in, batch, cache, seq, rows)
		}
		batch.Tables = cache.Tables(nil, batch.Spans)
		batch.Logits = make([]float32, len(batch.Outputs)*a.Heads*a.DimV)
		want := oracle.Run(batch)
		if err := prog.Run(context.Background(), batch); err != nil {
			t.Fatal(err)
		}
		compare(t, fmt.Sprintf("step %d", step), batch, want, func(float64) float64 { return c.bound(a, cache.Len(0)) })
	}
}

type attentionCase struct {
	plan   *graph.Plan
	layout kv.Layout
	top    float64 // largest magnitude of any input
}

func newAttentionCase(t *testing.T, a Attention) *attentionCase {
	t.Helper()
	in := newInput(8)
	c := &attentionCase{}
	qw, kw, vw := a.Heads*a.DimK, a.KVHeads*a.DimK, a.KVHeads*a.DimV
	x := in.floats((qw+kw+vw)*vocab, 1)
	if a.Outliers {
		for i := 0; i < len(x); i += 37 {
			x[i] *= 30
		}
	}
	for _, v := range x {
		c.top = max(c.top, math.Abs(float64(v)))
	}
	table := &graph.Weight{Name: "input", Type: dtype.F32, Shape: []int{qw + kw + vw, vocab}, Data: encode(dtype.F32, x)}
	g := graph.NewBuilder()
	y := g.Embed(table, 1, graph.ByToken)
	at := graph.Attention{
		Heads: a.Heads, KVHeads: a.KVHeads, DimK: a.DimK, DimV: a.DimV,
		Scale: float32(1 / math.Sqrt(float64(a.DimK))), Window: a.Window, Softcap: a.Softcap, MLA: a.MLA, RopeBase: 10000,
	}
	if a.Sinks {
		at.Sinks = in.weight("sinks", dtype.F32, a.Heads)
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
	var want kv.Want
	if want.K, err = kv.Parse(a.K); err == nil {
		want.V, err = kv.Parse(a.V)
	}
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	c.layout, err = kv.Resolve(want, []kv.LayerInfo{{
		Cached: true, Heads: a.Heads, KVHeads: a.KVHeads, HeadDimK: a.DimK, HeadDimV: a.DimV,
		Window: a.Window, Share: -1, MLA: a.MLA, RopeBase: 10000,
	}}, kv.Settings{Cells: 1024, Seqs: 2, UBatch: 256, Policy: &zero, AutoAsymmetric: kv.Off, SWABypass: kv.Off})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// add appends rows of a sequence to a batch.
func (c *attentionCase) add(t *testing.T, in *input, b *llm.Batch, cache *kv.Cache, seq llm.Seq, rows int) {
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

// bound is the largest error that float32 arithmetic explains: a score is a
// sum of DimK products of values up to top, so it is off by at most
// DimK·2⁻²⁴·DimK·top²·scale; a weight is off by that share, and the output,
// a mean of values up to top, by twice that share of top.
func (c *attentionCase) bound(a Attention, n int) float64 {
	if a.Bound > 0 {
		return a.Bound * c.top
	}
	score := float64(a.DimK) * 0x1p-24 * float64(a.DimK) * c.top * c.top / math.Sqrt(float64(a.DimK))
	return (2*score + float64(n)*0x1p-24) * c.top
}
