package cpu

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
)

// attnRig is one attention layer that gets q, k and v from a table, indexed by
// token.
type attnRig struct {
	k, v           string
	heads, kvHeads int
	dim, dimV      int
	window         int
	exact          kv.Window
	mla            bool
	softcap        float32
	sinkLogits     []float32
	channels       []kv.Channels
	cells          int
	seqs           int // 0 means 4
	layers         int // each layer's queries come from the output of the layer before; 0 means 1
	rows           int // rows of a batch
	sparseV        float32
	options        backend.Options
	shuffle        uint64
	table          []float32 // [tokens][q k v]
}

const rigTokens = 64

func (r *attnRig) width() int {
	w := r.heads*r.dim + r.kvHeads*r.dim
	if !r.mla {
		w += r.kvHeads * r.dimV
	}
	return w
}

// random fills the table with values of a normal distribution.
func (r *attnRig) random(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	r.table = make([]float32, rigTokens*r.width())
	for i := range r.table {
		r.table[i] = float32(rng.NormFloat64())
	}
}

// rigRun is a compiled rig and its sequences.
type rigRun struct {
	*attnRig
	prog   *program
	layout layout.Layout
	cache  *pages.Cache
}

func (r *attnRig) open(t testing.TB) *rigRun {
	t.Helper()
	b, err := Driver{}.Open(0, r.options)
	if err != nil {
		t.Fatal(err)
	}
	run := &rigRun{attnRig: r}
	table := floatWeight("input", r.table, r.width(), rigTokens)
	g := graph.NewBuilder()
	x := g.Embed(table, 1, graph.ByToken)
	q, k := g.Slice(x, 0, 0, r.heads*r.dim), g.Slice(x, 0, r.heads*r.dim, r.kvHeads*r.dim)
	v := graph.None
	if !r.mla {
		v = g.Slice(x, 0, (r.heads+r.kvHeads)*r.dim, r.kvHeads*r.dimV)
	}
	var sinkLogits *graph.Weight
	if r.sinkLogits != nil {
		sinkLogits = floatWeight("sinks", r.sinkLogits, len(r.sinkLogits))
	}
	layers := max(r.layers, 1)
	for i := range layers {
		q = g.Attend(q, k, v, graph.Attention{
			Layer: i, Softcap: r.softcap, SinkLogits: sinkLogits,
			Heads: r.heads, KVHeads: r.kvHeads, DimK: r.dim, DimV: r.dimV, Window: r.window, MLA: r.mla,
			Scale: float32(1 / math.Sqrt(float64(r.dim))), RopeBase: 10000,
		})
	}
	plan, err := g.Finish(g.Gather(q))
	if err != nil {
		t.Fatal(err)
	}
	var want layout.Want
	if want.K, err = kv.Parse(r.k); err == nil {
		want.V, err = kv.Parse(r.v)
	}
	if err != nil {
		t.Fatal(err)
	}
	none := 0
	run.layout, err = layout.Resolve(want, slices.Repeat([]layout.LayerInfo{{
		Cached: true, Heads: r.heads, KVHeads: r.kvHeads, HeadDimK: r.dim, HeadDimV: r.dimV,
		Window: r.window, Share: -1, MLA: r.mla, RopeBase: 10000,
	}}, layers), layout.Settings{
		Cells: r.cells, Seqs: cmp.Or(r.seqs, 4), UBatch: r.rows, Policy: &none, AutoAsymmetric: layout.Off, SWABypass: layout.Off,
		ExactWindow: &r.exact.Newest, ExactSinks: &r.exact.Pinned,
	})
	if err != nil {
		t.Fatal(err)
	}
	run.layout.Layers[0].K.Channels = r.channels
	sizes := backend.Sizes{Rows: r.rows, Outputs: r.rows, SparseV: r.sparseV}
	for _, g := range run.layout.Groups {
		sizes.Pages = append(sizes.Pages, g.Pages)
	}
	p, err := b.Compile(context.Background(), plan, &run.layout, sizes)
	if err != nil {
		t.Fatal(err)
	}
	run.prog = p.(*program)
	o := pages.Options{Copier: p}
	if r.shuffle > 0 {
		o.Shuffle = rand.New(rand.NewPCG(r.shuffle, 0))
	}
	if run.cache, err = pages.New(&run.layout, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return run
}

func floatWeight(name string, x []float32, shape ...int) *graph.Weight {
	data := make([]byte, 4*len(x))
	for i, v := range x {
		binary.LittleEndian.PutUint32(data[4*i:], math.Float32bits(v))
	}
	return &graph.Weight{Name: name, Type: dtype.F32, Shape: shape, Data: data}
}

// piece is the next tokens of a sequence.
type piece struct {
	seq    llm.Seq
	tokens []llm.Token
}

// batch makes a batch of pieces. All of its rows are outputs.
func (r *rigRun) batch(t testing.TB, pieces ...piece) *llm.Batch {
	t.Helper()
	b := &llm.Batch{}
	for _, p := range pieces {
		have, first := r.cache.Len(p.seq), len(b.Tokens)
		if err := r.cache.Extend(p.seq, len(p.tokens)); err != nil {
			t.Fatal(err)
		}
		for i, tok := range p.tokens {
			b.Tokens = append(b.Tokens, tok)
			b.Pos = append(b.Pos, int32(have+i))
			b.Outputs = append(b.Outputs, int32(first+i))
		}
		b.Spans = append(b.Spans, llm.Span{Seq: p.seq, First: first, Rows: len(p.tokens), Len: have + len(p.tokens)})
	}
	r.cache.Fill(b)
	b.Logits = make([]float32, len(b.Outputs)*r.heads*r.dimV)
	return b
}

func (r *rigRun) run(t testing.TB, b *llm.Batch) {
	t.Helper()
	if err := r.prog.Run(context.Background(), b); err != nil {
		if odd := new(backend.NotNumbers); !r.options.Unchecked || !errors.As(err, &odd) {
			t.Fatal(err)
		}
	}
}

// rowsOf runs a sequence in chunks, together with other pieces, and returns the
// output rows of the sequence.
func (r *rigRun) rowsOf(t testing.TB, seq llm.Seq, tokens []llm.Token, chunk func(left int) int, beside func(step int) []piece) (out []float32) {
	t.Helper()
	for step := 0; len(tokens) > 0; step++ {
		n := min(chunk(len(tokens)), len(tokens))
		var pieces []piece
		at := 0
		if beside != nil {
			for _, p := range beside(step) {
				at += len(p.tokens)
				pieces = append(pieces, p)
			}
		}
		b := r.batch(t, append(pieces, piece{seq, tokens[:n]})...)
		r.run(t, b)
		out = append(out, b.Logits[at*r.heads*r.dimV:]...)
		tokens = tokens[n:]
	}
	return out
}

func someTokens(rng *rand.Rand, n int) []llm.Token {
	list := make([]llm.Token, n)
	for i := range list {
		list[i] = llm.Token(rng.IntN(rigTokens))
	}
	return list
}

// fill writes n random cells of a sequence into the cache without running it.
func (r *rigRun) fill(t testing.TB, seq llm.Seq, n int, row func(cell int, side kv.Side) []float32) {
	t.Helper()
	if err := r.cache.Extend(seq, n); err != nil {
		t.Fatal(err)
	}
	b := &llm.Batch{Spans: []llm.Span{{Seq: seq, Len: n}}}
	r.cache.Fill(b)
	tables := b.Tables
	for _, s := range []kv.Side{kv.K, kv.V} {
		l := r.layout.Layers[0].Side(s)
		known := map[*float32][]byte{} // a row that occurs again is encoded only once, unless its bytes depend on the position
		for c := range n {
			x := row(c, s)
			buf := known[&x[0]]
			for h := range r.kvHeads {
				if len(buf) == l.RowBytes {
					break
				}
				b := make([]byte, l.HeadBytes)
				l.Active.Encode(b, x[h*l.HeadDim:(h+1)*l.HeadDim], kv.At{Pos: c, RopeBase: 10000})
				buf = append(buf, b...)
			}
			if l.Active.Polar == nil {
				known[&x[0]] = buf
			}
			cell := tables[0][0][c/kv.PageCells]*kv.PageCells + int32(c%kv.PageCells)
			if err := r.prog.WriteRow(0, s, layout.Packed, cell, buf); err != nil {
				t.Fatal(err)
			}
		}
	}
}
