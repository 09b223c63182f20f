package backendtest

import (
	"context"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/ref"
)

// Lacks lists what a device reports if it has no kernels for pictures. Pass it
// to Run.
var Lacks = []string{
	"SelfAttend", "Merge", "Clamp", "Supplied", "RoPE by coordinates", "quick GELU", "within a tile",
}

// pictureCase is a plan over a batch with coordinates, windows and supplied
// embeddings.
type pictureCase struct {
	name  string
	width int
	build func(g *graph.Builder, x graph.Value) graph.Value
	bound func(top float64) float64
}

// pictures checks the ops that only pictures use.
func (s *suite) pictures(t T) {
	gather := func(g *graph.Builder, x graph.Value) graph.Value { return g.Gather(x) }
	rope := func(adjacent bool) func(g *graph.Builder, x graph.Value) graph.Value {
		return func(g *graph.Builder, x graph.Value) graph.Value {
			return gather(g, g.Rope(x, graph.Rope{
				HeadDim: 24, First: 4, Freqs: []float32{1, 0.3, 0.1, 0.05, 0.01}, Scale: 1.1, Adjacent: adjacent, Axes: []uint8{0, 1, 2, 2, 1},
			}))
		}
	}
	self := func(dim int, windowed bool) func(g *graph.Builder, x graph.Value) graph.Value {
		return func(g *graph.Builder, x graph.Value) graph.Value {
			w := 3 * dim
			part := func(i int) graph.Value { return g.Slice(x, 0, i*w, w) }
			return gather(g, g.SelfAttend(part(0), part(1), part(2), graph.SelfAttend{Heads: 3, Dim: dim, Scale: 0.2, Windowed: windowed}))
		}
	}
	list := []pictureCase{
		{"rope by coordinates, halves", 72, rope(false), ulps(16)},
		{"rope by coordinates, pairs", 72, rope(true), ulps(16)},
		{"within spans", 9 * 16, self(16, false), ulps(16 * 5 * 5 * 5)},
		{"within windows", 9 * 16, self(16, true), ulps(16 * 5 * 5 * 5)},
		{"heads of 20", 9 * 20, self(20, false), ulps(20 * 5 * 5 * 5)},
		{"heads of 72", 9 * 72, self(72, false), ulps(72 * 5 * 5 * 5)},
		{"join", 40, func(g *graph.Builder, x graph.Value) graph.Value { return g.Merge(x, 4, false) }, ulps(0)},
		{"mean", 40, func(g *graph.Builder, x graph.Value) graph.Value { return g.Scale(g.Merge(x, 9, true), 2) }, ulps(16)},
		{"clamp", 40, func(g *graph.Builder, x graph.Value) graph.Value { return gather(g, g.Clamp(x, -0.3, 0.7)) }, ulps(0)},
		{"quick gelu", 40, func(g *graph.Builder, x graph.Value) graph.Value { return gather(g, g.Act(x, graph.GELUQuick)) }, ulps(32)},
		{"quick gelu gate", 40, func(g *graph.Builder, x graph.Value) graph.Value {
			return gather(g, g.Glu(x, g.Scale(x, 0.5), graph.GELUQuick, 0))
		}, ulps(128)},
		{"supplied", 40, func(g *graph.Builder, x graph.Value) graph.Value { return gather(g, g.Supplied(x, 0, false)) }, ulps(0)},
		{"supplied, added", 40, func(g *graph.Builder, x graph.Value) graph.Value {
			return gather(g, g.Supplied(g.Scale(x, 3), 1, true))
		}, ulps(8)},
	}
	for _, c := range list {
		t.Run(c.name, func(t T) { s.picture(t, &c) })
	}
}

// pictureRows is the number of rows of the first span. The second span has one
// row less.
const pictureRows = 70

func (s *suite) picture(t T, c *pictureCase) {
	t.Helper()
	in := newInput(11)
	table := in.weight("input", dtype.F32, c.width, vocab)
	g := graph.NewBuilder()
	plan, err := g.Finish(c.build(g, g.Embed(table, 1, graph.ByToken)))
	if err != nil {
		t.Fatal(err)
	}
	prog := s.compile(t, plan, &layout.Layout{}, backend.Sizes{Rows: 2 * pictureRows, Outputs: 2 * pictureRows, Slots: 2})
	if prog == nil {
		return
	}
	defer prog.Close()
	b := twoSpans(in, pictureRows, 0, plan.Values[plan.Output].Width)
	for r := range b.Tokens {
		b.Coords = append(b.Coords, llm.Coord{int32(r), int32(in.rng.IntN(90)), int32(in.rng.IntN(90))})
		b.Embds = append(b.Embds, nil)
		if r%3 == 1 {
			b.Embds[r] = in.floats(2*c.width, 1)
		}
	}
	b.Windows = []int32{1, 9, 40, 75, int32(len(b.Tokens))}
	last := 0
	for _, n := range plan.Nodes { // leave room for the rows that an output takes
		if m, ok := n.Op.(graph.Merge); ok {
			last = m.Rows - 1
		}
	}
	if last > 0 {
		b.Outputs = []int32{30, 0, int32(len(b.Tokens) - 1 - last), 7}
	}
	want := ref.New(plan, nil).Run(b)
	if err := prog.Run(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	compare(t, c.name, b, want, c.bound)
}

// tiles checks attention over a cache in which the rows of a tile see each other,
// with and without a window, over more than a page.
func (s *suite) tiles(t T) {
	const heads, dim, rows = 4, 32, 150
	for _, window := range []int{0, 40} {
		in := newInput(12)
		table := in.weight("input", dtype.F32, 2*heads*dim, vocab)
		g := graph.NewBuilder()
		x := g.Embed(table, 1, graph.ByToken)
		kv2 := func(i int) graph.Value { return g.Slice(x, 0, heads*dim+i*heads/2*dim, heads/2*dim) }
		plan, err := g.Finish(g.Gather(g.Attend(g.Slice(x, 0, 0, heads*dim), kv2(0), kv2(1), graph.Attention{
			Heads: heads, KVHeads: heads / 2, DimK: dim, DimV: dim, Scale: 0.2, Window: window, Tiles: true,
		})))
		if err != nil {
			t.Fatal(err)
		}
		l, err := layout.Resolve(layout.Want{K: kv.F32, V: kv.F32}, []layout.LayerInfo{{
			Cached: true, Heads: heads, KVHeads: heads / 2, HeadDimK: dim, HeadDimV: dim, Share: -1,
		}}, layout.Settings{Cells: 512, Seqs: 2, UBatch: 2 * rows})
		if err != nil {
			t.Fatal(err)
		}
		prog := s.compile(t, plan, &l, backend.Sizes{Rows: 2 * rows, Outputs: 2 * rows, Pages: []int{l.Groups[0].Pages}})
		if prog == nil {
			return
		}
		s.runTiles(t, in, plan, prog, &l, rows)
		if err := prog.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (s *suite) runTiles(t T, in *input, plan *graph.Plan, prog backend.Program, l *layout.Layout, rows int) {
	t.Helper()
	cache, err := pages.New(l, pages.Options{Copier: prog})
	if err != nil {
		t.Fatal(err)
	}
	b := twoSpans(in, rows, 0, plan.Values[plan.Output].Width)
	b.Sees = make([]int32, len(b.Tokens))
	for _, sp := range b.Spans {
		if err := cache.Extend(sp.Seq, sp.Rows); err != nil {
			t.Fatal(err)
		}
		for _, tile := range [][2]int{{10, 74}, {80, 84}, {90, sp.Rows}} {
			for r := tile[0]; r < tile[1]; r++ {
				b.Sees[sp.First+r] = int32(tile[1])
			}
		}
	}
	cache.Fill(b)
	want := ref.New(plan, l).Run(b)
	if err := prog.Run(context.Background(), b); err != nil {
		t.Fatal(err)
	}
	compare(t, "tiles", b, want, ulps(32*5*5*5))
}
