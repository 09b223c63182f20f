package backendtest

import (
	"context"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/ref"
)

// pool checks the kinds of pooling over spans of different length.
func (s *suite) pool(t T) {
	in := newInput(7)
	table := in.weight("input", dtype.F32, 20, vocab)
	for _, kind := range []graph.PoolKind{graph.PoolMean, graph.PoolFirst, graph.PoolLast} {
		g := graph.NewBuilder()
		plan, err := g.Finish(g.Scale(g.Pool(g.Embed(table, 1, graph.ByToken), kind), 3))
		if err != nil {
			t.Fatal(err)
		}
		prog, err := s.b.Compile(context.Background(), plan, &layout.Layout{}, backend.Sizes{Rows: 30, Outputs: 2, Slots: 2})
		if err != nil {
			t.Fatal(err)
		}
		b := twoSpans(in, 9, 0, 20)
		b.Outputs = []int32{8, 16}
		want := ref.New(plan, nil).Run(b)
		if err := prog.Run(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		compare(t, "pool", b, want, ulps(16))
		if err := prog.Close(); err != nil {
			t.Error(err)
		}
	}
}

// bothDirections checks attention without a causal mask, over more than a page.
// Each row sees all rows of its own sequence, and no rows of the other one.
func (s *suite) bothDirections(t T) {
	const heads, dim, rows = 3, 32, 90
	in := newInput(8)
	table := in.weight("input", dtype.F32, 3*heads*dim, vocab)
	g := graph.NewBuilder()
	x := g.Embed(table, 1, graph.ByToken)
	part := func(i int) graph.Value { return g.Slice(x, 0, i*heads*dim, heads*dim) }
	plan, err := g.Finish(g.Gather(g.Attend(part(0), part(1), part(2), graph.Attention{
		Heads: heads, KVHeads: heads, DimK: dim, DimV: dim, Scale: 0.2, Bidirectional: true,
	})))
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.Resolve(layout.Want{K: kv.F32, V: kv.F32}, []layout.LayerInfo{{
		Cached: true, Heads: heads, KVHeads: heads, HeadDimK: dim, HeadDimV: dim, Share: -1,
	}}, layout.Settings{Cells: 512, Seqs: 2, UBatch: 2 * rows})
	if err != nil {
		t.Fatal(err)
	}
	sizes := backend.Sizes{Rows: 2 * rows, Outputs: 2 * rows, Pages: []int{l.Groups[0].Pages}}
	prog := s.compile(t, plan, &l, sizes)
	if prog == nil {
		return
	}
	defer prog.Close()
	cache, err := pages.New(&l, pages.Options{Copier: prog})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{rows, 1} {
		b := twoSpans(in, n, 0, plan.Values[plan.Output].Width)
		for _, sp := range b.Spans {
			cache.Drop(sp.Seq)
			if err := cache.Extend(sp.Seq, sp.Rows); err != nil {
				t.Fatal(err)
			}
		}
		cache.Fill(b)
		want := ref.New(plan, &l).Run(b)
		if err := prog.Run(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		// Weights have the error of their scores, which are dim products of
		// values up to 5.
		compare(t, "both directions", b, want, ulps(dim*5*5*5))
	}
}
