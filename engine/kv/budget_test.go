package kv

import (
	"errors"
	"strings"
	"testing"

	"godwit/engine/llm"
)

// budgeted resolves a layout with a memory for each conversation that is the given
// multiple of the smallest one.
func budgeted(t testing.TB, w Want, layers []LayerInfo, s Settings, times float64) Layout {
	t.Helper()
	s.Memory = 1
	_, err := Resolve(w, layers, s)
	var small *BudgetError
	if !errors.As(err, &small) || !errors.Is(err, ErrBudget) {
		t.Fatalf("one byte: %v", err)
	}
	s.Memory = int64(times * float64(small.Least))
	return resolve(t, w, layers, s)
}

// For every packed type, the exact window covers everything while it fits, shrinks
// from its oldest end by few pages at a time, and depends on the position alone. The
// smallest memory is the one that the error names.
func TestBudget(t *testing.T) {
	const reach = 8192
	windows := model(6, 4, 2, 128)
	for i := range 4 {
		windows[i].Window = 512
	}
	for _, typ := range Types() {
		if typ.Form(128, K).Float || typ.Form(128, V).Float {
			continue
		}
		for name, layers := range map[string][]LayerInfo{"full": model(4, 4, 2, 128), "windows": windows} {
			set := Settings{Cells: reach, Seqs: 2}
			l := budgeted(t, Want{typ, typ}, layers, set, 1.3)
			b := l.budget()
			if b == nil {
				t.Fatalf("%s %s: no budget", typ.Name, name)
			}
			whole, before := b.whole(), 0
			if whole == 0 || whole >= reach {
				t.Errorf("%s %s: all tokens are exact up to %d", typ.Name, name, whole)
			}
			for pos := range reach {
				q, first := pos/PageCells, Window{Newest: allPositions, Budget: b}.FirstExact(pos)
				if first != 0 && pos < whole || first < before || first > before+3 || first > max(q-1, 0) {
					t.Fatalf("%s %s: position %d reads exact pages from %d, before from %d; whole up to %d", typ.Name, name, pos, first, before, whole)
				}
				if n := b.reads(pos + 1); n > b.Bytes {
					t.Fatalf("%s %s: position %d reads %d bytes of %d", typ.Name, name, pos, n, b.Bytes)
				}
				before = first
			}
			smallest := budgeted(t, Want{typ, typ}, layers, set, 1)
			least := smallest.budget()
			set.Memory = least.Bytes - 1
			var small *BudgetError
			if _, err := Resolve(Want{typ, typ}, layers, set); !errors.As(err, &small) || small.Least != least.Bytes || small.Largest >= reach || small.Largest == 0 {
				t.Errorf("%s %s: %v", typ.Name, name, err)
				continue
			}
			set.Cells = small.Largest
			if _, err := Resolve(Want{typ, typ}, layers, set); err != nil {
				t.Errorf("%s %s: the largest context: %v", typ.Name, name, err)
			}
			set.Cells, set.Memory = reach, 1<<62
			if huge := resolve(t, Want{typ, typ}, layers, set); huge.budget().firstExact(reach/PageCells) != 0 {
				t.Errorf("%s %s: not all tokens are exact in %d bytes", typ.Name, name, set.Memory)
			}
		}
	}
}

// The window of a page with a row of its own: leaving is the inverse of firstExact.
func TestBudgetLeaves(t *testing.T) {
	l := budgeted(t, Want{Turbo3, Turbo3}, model(2, 2, 2, 128), Settings{Cells: 4096}, 1.2)
	w := l.Layers[0].Exact
	for i := range 4096 / PageCells {
		leaves := w.Leaves(i)
		if leaves < 4096 && (w.FirstExact(leaves) <= i || w.FirstExact(leaves-1) > i) {
			t.Errorf("page %d is read packed from %d on, but the first exact pages there are %d and before %d", i, leaves, w.FirstExact(leaves), w.FirstExact(leaves-1))
		}
	}
}

// A conversation never holds more than its memory: in chunks of any size, in steps of
// one row, with points and with the end of a long prompt. What a prompt cannot keep is
// given up, and never what its rows read.
func TestBudgetBytes(t *testing.T) {
	for _, times := range []float64{1, 1.01, 1.1, 1.5, 3} {
		for _, rows := range []int{1, 7, 64, 512} {
			for _, typ := range []*Type{GW3, Turbo3, Q8_0, byPage} {
				l := budgeted(t, Want{typ, typ}, model(4, 4, 2, 128), Settings{Cells: 4096, UBatch: 512}, times)
				checkBudgetBytes(t, &l, rows)
			}
		}
	}
}

func checkBudgetBytes(t *testing.T, l *Layout, rows int) {
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
			for page := l.Groups[0].Exact.FirstExact(pos); page <= pos/PageCells; page++ {
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
	l := budgeted(t, Want{byPage, byPage}, layers, exact(Settings{Cells: 2048, Seqs: 1, UBatch: 64}, 64, 4), 1.2)
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

// Plain floats have no exact form, so the memory only bounds the context.
func TestBudgetFloats(t *testing.T) {
	l := budgeted(t, Want{F16, F16}, model(2, 2, 2, 64), Settings{Cells: 1024}, 1)
	if l.budget() != nil || l.Layers[0].K.Exact != nil {
		t.Error("f16 has an exact window")
	}
	said := false
	for _, e := range l.Events {
		said = said || strings.Contains(e.Text, "changes nothing")
	}
	if !said {
		t.Errorf("nothing says that the memory has no effect: %v", l.Events)
	}
}

// The exact window of the settings is the smallest one.
func TestBudgetLeast(t *testing.T) {
	short, long := 1, 1024
	least := func(newest *int) int64 {
		set := Settings{Cells: 8192, Memory: 1, ExactWindow: newest}
		_, err := Resolve(Want{Turbo3, Turbo3}, model(2, 2, 2, 128), set)
		var small *BudgetError
		if !errors.As(err, &small) {
			t.Fatal(err)
		}
		set.Memory = small.Least
		if l := resolve(t, Want{Turbo3, Turbo3}, model(2, 2, 2, 128), set); l.Layers[0].Exact.at(8191) < *newest {
			t.Errorf("the newest %d tokens are exact, want %d", l.Layers[0].Exact.at(8191), *newest)
		}
		return small.Least
	}
	if a, b := least(&short), least(&long); a >= b {
		t.Errorf("a window of %d needs %d bytes, one of %d needs %d", short, a, long, b)
	}
}

// Whole pages of a long exact window are parts of their own, which all points share. A
// point holds only what is left: here the pinned rows are in the first page, and nothing.
func TestBudgetPoints(t *testing.T) {
	l := budgeted(t, Want{Turbo3, Turbo3}, model(2, 2, 2, 128), exact(Settings{Cells: 2048, UBatch: 64}, 64, 4), 1.5)
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
	if err != nil || len(page) != 2*2*PageCells*l.Layers[0].K.ExactRow {
		t.Errorf("an exact page of %d bytes (%v)", len(page), err)
	}
}
