package gpu

import (
	"slices"

	"godwit/engine/graph"
	"godwit/engine/llm"
)

// subBatch is a batch with some of the spans of another batch.
type subBatch struct {
	batch   llm.Batch
	results []int32 // row of each result in the whole batch's results
	row     []int32 // row in the sub-batch of each row of the whole batch; -1 for rows of other sub-batches
	first   bool    // whether this is the first sub-batch of its batch
	self    []bool  // groups in which conversations calibrate their keys
}

// decodes reports whether a span is one row of an answer. Such rows are
// multiplied as vectors.
func decodes(s *llm.Span) bool { return s.Rows == 1 && !s.Prompt }

// collect gathers spans, starting with span first. If single is set, it takes
// single rows of answers, at most maxDecode. Otherwise it takes all other
// spans. It returns the index of the first span that it has not examined.
func (p *subBatch) collect(b *llm.Batch, first int, single bool, out graph.RowSet) int {
	t := &p.batch
	t.Tokens, t.Pos, t.Spans, t.Outputs, t.Input, t.Top = t.Tokens[:0], t.Pos[:0], t.Spans[:0], t.Outputs[:0], t.Input[:0], t.Top[:0]
	t.Tables, t.Exact, t.Packs = empty(t.Tables, len(b.Tables)), empty(t.Exact, len(b.Exact)), empty(t.Packs, len(b.Packs))
	p.results, p.row = p.results[:0], p.row[:0]
	for range b.Tokens {
		p.row = append(p.row, -1)
	}
	width := len(b.Input) / len(b.Tokens)
	next := first
	for ; next < len(b.Spans) && (!single || len(t.Spans) < maxDecode); next++ {
		s := b.Spans[next]
		if decodes(&s) != single {
			continue
		}
		for r := s.First; r < s.First+s.Rows; r++ {
			p.row[r] = int32(len(t.Tokens) + r - s.First)
			if out == graph.BatchRows {
				p.results = append(p.results, int32(r))
			}
		}
		end := s.First + s.Rows
		t.Input = append(t.Input, b.Input[s.First*width:end*width]...)
		for g := range b.Tables {
			t.Tables[g] = append(t.Tables[g], b.Tables[g][next])
			if len(b.Exact) > g && len(b.Exact[g]) > 0 {
				t.Exact[g] = append(t.Exact[g], b.Exact[g][next])
			}
		}
		moved := s
		moved.First = len(t.Tokens)
		t.Spans = append(t.Spans, moved)
		t.Tokens, t.Pos = append(t.Tokens, b.Tokens[s.First:end]...), append(t.Pos, b.Pos[s.First:end]...)
	}
	p.takePacks(b)
	for i, r := range b.Outputs {
		if p.row[r] < 0 {
			continue
		}
		t.Outputs = append(t.Outputs, p.row[r])
		if len(b.Top) > 0 {
			t.Top = append(t.Top, b.Top[i])
		}
		if out == graph.OutputRows {
			p.results = append(p.results, int32(i))
		}
	}
	return next
}

// takePacks collects the pages that this sub-batch packs. These are the pages
// that its spans write or that wait for their calibration. The first sub-batch
// of a batch also takes all other pages.
func (p *subBatch) takePacks(b *llm.Batch) {
	t := &p.batch
	for g := range b.Packs {
		for i := range b.Packs[g] {
			q := &b.Packs[g][i]
			w := writer(b, g, q.Page)
			if w < 0 && p.self[g] {
				w = slices.IndexFunc(b.Spans, func(s llm.Span) bool { return s.Seq == q.Seq && measuring(&s) })
			}
			if w < 0 && p.first || w >= 0 && p.row[b.Spans[w].First] >= 0 {
				t.Packs[g] = append(t.Packs[g], *q)
			}
		}
	}
	p.first = false
}

// empty returns n empty lists that reuse the memory of lists.
func empty[T any](lists [][]T, n int) [][]T {
	for len(lists) < n {
		lists = append(lists, nil)
	}
	for i := range lists {
		lists[i] = lists[i][:0]
	}
	return lists
}
