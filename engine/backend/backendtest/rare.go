package backendtest

import (
	"context"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
	"godwit/engine/ref"
)

// rare checks ops that few architectures use.
func (s *suite) rare(t T) {
	in := newInput(9)
	s.run(t, testCase{width: 48, bound: ulps(16), build: func(g *graph.Builder, x graph.Value) graph.Value {
		return g.Act(x, graph.Exp)
	}})
	s.run(t, testCase{width: 48, bound: ulps(16), build: func(g *graph.Builder, x graph.Value) graph.Value {
		return g.Temperature(x, graph.Temperature{Every: 5, Scale: 0.3, Offset: 1})
	}})
	router := in.weight("router", dtype.F32, 32, 12)
	small := in.weight("small", dtype.F32, 32, 40, 4)
	shared := graph.Routing{Experts: 12, Used: 3, Gating: graph.Softmax, Normalise: true, Share: 3}
	s.run(t, testCase{width: 32, bound: ulps(2048), build: func(g *graph.Builder, x graph.Value) graph.Value {
		route := g.Route(g.Linear(x, router, nil), shared)
		return g.ExpertSum(g.ExpertLinear(x, route, small, nil), route)
	}})
	s.run(t, testCase{width: 60, bound: ulps(32), build: func(g *graph.Builder, x graph.Value) graph.Value {
		return g.Softmax(x, 20)
	}})
	s.scans(t, in)
	t.Run("chosen positions", s.chosen)
}

// chosen checks attention to positions that an index with its own keys chooses,
// over several batches.
func (s *suite) chosen(t T) {
	const heads, dim, width = 3, 32, 2*32 + 2*32 + 3*32 + 32 + 3
	in := newInput(10)
	g := graph.NewBuilder()
	x := g.Embed(in.weight("input", dtype.F32, width, vocab), 1, graph.ByToken)
	at := graph.Attention{Layer: 1, Heads: heads, DimK: dim, Scale: 1}
	weights := g.Act(g.Slice(x, 0, width-heads, heads), graph.Sigmoid)
	chosen := g.Index(g.Slice(x, 0, 128, heads*dim), g.Slice(x, 0, 128+heads*dim, dim), weights, at, 9)
	y := g.AttendTo(g.Slice(x, 0, 0, 64), g.Slice(x, 0, 64, 32), g.Slice(x, 0, 96, 32), chosen,
		graph.Attention{Heads: 2, KVHeads: 1, DimK: dim, DimV: dim, Scale: 0.2})
	plan, err := g.Finish(g.Gather(y))
	if err != nil {
		t.Fatal(err)
	}
	zero := 0
	l, err := layout.Resolve(layout.Want{K: kv.F32, V: kv.F32}, []layout.LayerInfo{
		{Layer: 0, Cached: true, Heads: 2, KVHeads: 1, HeadDimK: dim, HeadDimV: dim, Share: -1},
		{Layer: 1, Cached: true, Heads: heads, KVHeads: 1, HeadDimK: dim, HeadDimV: dim, Share: -1, MLA: true},
	}, layout.Settings{Cells: 512, Seqs: 2, UBatch: 64, Policy: &zero})
	if err != nil {
		t.Fatal(err)
	}
	sizes := backend.Sizes{Rows: 64, Outputs: 64, Slots: 2}
	for _, group := range l.Groups {
		sizes.Pages = append(sizes.Pages, group.Pages)
	}
	prog := s.compile(t, plan, &l, sizes)
	if prog == nil {
		return
	}
	defer prog.Close()
	cache, err := pages.New(&l, pages.Options{Copier: prog})
	if err != nil {
		t.Fatal(err)
	}
	oracle := ref.New(plan, &l)
	for _, rows := range []int{20, 1, 30, 1} {
		b := &llm.Batch{}
		for seq := range llm.Seq(2) {
			have, first := cache.Len(seq), len(b.Tokens)
			if err := cache.Extend(seq, rows); err != nil {
				t.Fatal(err)
			}
			for r := range rows {
				b.Tokens = append(b.Tokens, llm.Token(in.rng.IntN(vocab)))
				b.Pos, b.Outputs = append(b.Pos, int32(have+r)), append(b.Outputs, int32(first+r))
			}
			b.Spans = append(b.Spans, llm.Span{Seq: seq, First: first, Rows: rows, Len: have + rows})
		}
		cache.Fill(b)
		b.Logits = make([]float32, len(b.Outputs)*plan.Values[plan.Output].Width)
		want := oracle.Run(b)
		if err := prog.Run(context.Background(), b); err != nil {
			t.Fatal(err)
		}
		compare(t, fmt.Sprintf("%d rows", rows), b, want, ulps(1024))
	}
}

// scans checks the recurrences whose decay differs between columns.
func (s *suite) scans(t T, in *input) {
	for _, width := range []int{40, 300} {
		rates := in.weight("rates", dtype.F32, 6, width)
		s.run(t, testCase{width: 2*width + 12, bound: ulps(4096), build: func(g *graph.Builder, x graph.Value) graph.Value {
			dt := g.Act(g.Slice(x, 0, width, width), graph.Sigmoid)
			return g.Scan(g.Slice(x, 0, 0, width), dt, g.Slice(x, 0, 2*width, 6), g.Slice(x, 0, 2*width+6, 6), 0, rates)
		}})
	}
	for i := range 6 {
		r := graph.Recur{Heads: 2, Scale: 0.4, Late: i&1 != 0, Before: i&2 != 0}
		s.run(t, testCase{width: 5*16 + 80, bound: ulps(4096), build: func(g *graph.Builder, x graph.Value) graph.Value {
			part := func(i int) graph.Value { return g.Slice(x, 0, 16*i, 16) }
			unit := func(v graph.Value) graph.Value { return g.Norm(v, graph.L2, nil, nil, 1e-6, 8) }
			decay := g.Scale(g.Act(part(2), graph.Softplus), -1)
			from, to := g.Scale(unit(part(3)), -0.5), unit(part(4))
			if i >= 4 {
				from, to = graph.None, graph.None
			}
			return g.Recur(part(0), unit(part(1)), g.Slice(x, 0, 80, 80), decay, from, to, 0, r)
		}})
	}
}
