package pages

import (
	"testing"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// A conversation never holds more than its memory: in chunks of any size, in steps of
// one row, with points and with the end of a long prompt. What a prompt cannot keep is
// given up, and never what its rows read.
func TestBudgetBytes(t *testing.T) {
	for _, times := range []float64{1, 1.01, 1.1, 1.5, 3} {
		for _, rows := range []int{1, 7, 64, 512} {
			for _, typ := range []*kv.Type{kv.GW3, kv.Turbo3, kv.Q8_0, byPage} {
				l := budgeted(t, layout.Want{K: typ, V: typ}, model(4, 4, 2, 128), layout.Settings{Cells: 4096, UBatch: 512}, times)
				checkBudgetBytes(t, &l, rows)
			}
		}
	}
}

func checkBudgetBytes(t *testing.T, l *layout.Layout, rows int) {
	t.Helper()
	c, err := New(l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Keep(0, 1500); err != nil {
		t.Fatal(err)
	}
	b := llm.Batch{Spans: []llm.Span{{}}}
	for c.Len(0) < 4096 {
		n := min(rows, c.Step(0), 4096-c.Len(0))
		if c.Len(0) >= 1500 {
			n = 1
		}
		gives := c.GivesUp(0, n)
		if err := c.Extend(0, n); err != nil {
			t.Fatal(err)
		}
		if gives && c.Prompted(0) != 0 {
			t.Fatalf("at %d it was to give up the prompt, and keeps %d", c.Len(0), c.Prompted(0))
		}
		b.Spans[0] = llm.Span{Rows: n, Len: c.Len(0)}
		c.Fill(&b)
		if got := c.Bytes(0); got > l.Settings.Memory {
			t.Fatalf("%d bytes at %d, allowed %d", got, c.Len(0), l.Settings.Memory)
		}
		for pos := c.Len(0) - n; pos < c.Len(0); pos++ {
			for page := l.Groups[0].Exact.FirstExact(pos); page <= pos/kv.PageCells; page++ {
				if b.Exact[0][0][page] < 0 {
					t.Fatalf("position %d reads page %d, which has no exact form", pos, page)
				}
			}
		}
		if err := c.Point(0, c.Len(0), false); err != nil {
			t.Fatal(err)
		}
	}
}

// Pages that leave the window are packed in small parts over the steps before, never
// in the step that reads them.
func TestBudgetPackSteps(t *testing.T) {
	layers := model(30, 2, 2, 32)
	l := budgeted(t, layout.Want{K: byPage, V: byPage}, layers, exact(layout.Settings{Cells: 2048, Seqs: 1, UBatch: 64}, 64, 4), 1.2)
	c, err := New(&l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := llm.Batch{Spans: []llm.Span{{Rows: 1}}}
	packed := map[int32]int{} // packed layers, by page
	for pos := range 2048 {
		if err := c.Extend(0, 1); err != nil {
			t.Fatal(err)
		}
		b.Spans[0].Len = pos + 1
		c.Fill(&b)
		work := 0
		for _, p := range b.Packs[0] {
			for k := range layers {
				if step := k * p.Of / len(layers); step >= p.From && step < p.To {
					work++
					packed[p.Page]++
				}
			}
			if p.Now {
				t.Errorf("position %d: page %d is packed when it is read", pos, p.Page)
			}
		}
		if work > 2 {
			t.Errorf("position %d: %d layers packed", pos, work)
		}
	}
	first := l.Groups[0].Exact.FirstExact(2047)
	for i, page := range c.seqs[0].tables[0][:first] {
		if packed[page] != len(layers) {
			t.Errorf("page %d packed in %d layers of %d", i, packed[page], len(layers))
		}
	}
	if first == 0 {
		t.Error("no page left the window")
	}
}

// Whole pages of a long exact window are parts of their own, which all points share. A
// point holds only what is left: here the pinned rows are in the first page, and nothing.
func TestBudgetPoints(t *testing.T) {
	l := budgeted(t, layout.Want{K: kv.Turbo3, V: kv.Turbo3}, model(2, 2, 2, 128), exact(layout.Settings{Cells: 2048, UBatch: 64}, 64, 4), 1.5)
	m := newMemory(&l)
	c, err := New(&l, Options{Copier: m})
	if err != nil {
		t.Fatal(err)
	}
	b := llm.Batch{Spans: []llm.Span{{Rows: 64}}}
	for c.Len(0) < 1024 {
		if err := c.Extend(0, 64); err != nil {
			t.Fatal(err)
		}
		b.Spans[0].Len = c.Len(0)
		c.Fill(&b)
	}
	data, err := c.PointData(0, 1024, m)
	if err != nil || data == nil || len(data) != 0 {
		t.Errorf("a point of %d bytes (%v)", len(data), err)
	}
	from, to := c.Needed(1, 1024)
	if first := l.Groups[0].Exact.FirstExact(1024); c.Parts() != 2 || from != first || to != 16 || first == 0 {
		t.Errorf("%d parts, exact pages from %d to %d, want from %d to 16", c.Parts(), from, to, first)
	}
	page, err := c.PageData(0, 1, from, m)
	if err != nil || len(page) != 2*2*kv.PageCells*l.Layers[0].K.ExactRow {
		t.Errorf("an exact page of %d bytes (%v)", len(page), err)
	}
}
