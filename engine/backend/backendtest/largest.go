package backendtest

import (
	"context"
	"math"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// largest checks rows of which only the n largest logits are needed. These must be
// present (the lowest tokens among equals), and every other logit must be correct
// or minus infinity. One batch has decode steps, and one has a prompt.
func (s *suite) largest(t T) {
	const width = 5000
	in := newInput(9)
	table := in.floats(width*vocab, 1)
	for i := range table {
		table[i] = float32(math.Round(float64(table[i]) * 8))
	}
	g := graph.NewBuilder()
	w := &graph.Weight{Name: "input", Type: dtype.F32, Shape: []int{width, vocab}, Data: encode(dtype.F32, table)}
	plan, err := g.Finish(g.Gather(g.Embed(w, 1, graph.ByToken)))
	if err != nil {
		t.Fatal(err)
	}
	prog := s.compile(t, plan, &layout.Layout{}, backend.Sizes{Rows: 8, Outputs: 4, Slots: 2})
	if prog == nil {
		t.Fatal("no program")
	}
	for _, spans := range [][]llm.Span{{{Rows: 1, Len: 1}, {Seq: 1, First: 1, Rows: 1, Len: 1}}, {{Rows: 1, Len: 1}, {Seq: 1, First: 1, Rows: 5, Len: 5}}} {
		for _, top := range [][]int{{1, 1}, {40, 1}, {1, 0}, {3, 64}, {65, 2}, nil} {
			b := &llm.Batch{Spans: spans, Top: top, Logits: make([]float32, 2*width)}
			last := spans[len(spans)-1]
			for r := range last.First + last.Rows {
				b.Tokens, b.Pos = append(b.Tokens, llm.Token(3*r+1)), append(b.Pos, int32(r))
			}
			b.Outputs = []int32{0, int32(len(b.Tokens) - 1)}
			if err := prog.Run(context.Background(), b); err != nil {
				t.Fatal(err)
			}
			for k, row := range b.Outputs {
				n := width
				if top != nil && top[k] > 0 {
					n = top[k]
				}
				if at := missing(b.Logits[k*width:][:width], table[int(b.Tokens[row])*width:][:width], n); at >= 0 {
					t.Errorf("%d rows, %v wanted: token %d of row %d is wrong", len(b.Tokens), top, at, row)
				}
			}
		}
	}
	if err := prog.Close(); err != nil {
		t.Error(err)
	}
}

// missing returns the first token with a wrong logit, or -1. A logit that is not
// among the n largest may also be minus infinity.
func missing(got, want []float32, n int) int {
	order := make([]int, len(want))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case want[i] > want[j]:
			return -1
		case want[i] < want[j]:
			return 1
		}
		return 0
	})
	for k, i := range order {
		if got[i] != want[i] && (k < n || !math.IsInf(float64(got[i]), -1)) {
			return i
		}
	}
	return -1
}
