package pages

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// holds checks one row of the memory.
func (w *twin) holds(t rapid.TB, layer int, s kv.Side, p layout.Tier, cell int32, v uint32) {
	want := make([]byte, w.c.layout.Layers[layer].Side(s).Row(p))
	fill(want, v, layer, s, p)
	if got, err := w.m.row(layer, s, p, cell); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("layer %d %v part %d: cell %d holds another row (%v)", layer, s, p, cell, err)
	}
}

// checkExact checks that every row of the batch finds the exact form of each
// page that it reads exactly, after any cuts, forks and loads.
func (w *twin) checkExact(t rapid.TB, b *llm.Batch) {
	for g := range w.c.exact {
		if !w.c.exact[g].on() {
			continue
		}
		for i, sp := range b.Spans {
			seq := int(sp.Seq)
			for pos := sp.Len - sp.Rows; pos < sp.Len; pos++ {
				for page := w.c.exact[g].window.FirstExact(pos); page <= pos/kv.PageCells; page++ {
					if b.Exact[g][i][page] < 0 && b.Tables[g][i][page] >= 0 {
						t.Fatalf("group %d sequence %d: position %d of %d needs page %d, which is packed", g, seq, pos, sp.Len, page)
					}
				}
			}
		}
	}
}

// checkPacked checks that every page that a row of the batch reads in packed
// form is packed.
func (w *twin) checkPacked(t rapid.TB, b *llm.Batch) {
	for i := range w.c.layout.Layers {
		y := &w.c.layout.Layers[i]
		if !y.Owns() {
			continue
		}
		for k, sp := range b.Spans {
			first := 0
			if y.Window > 0 {
				first = max(sp.Len-y.Window, 0)
			}
			for pos := first; pos < sp.Len; pos++ {
				page := pos / kv.PageCells
				if x := w.c.exact[y.Group]; x.on() && page >= x.window.FirstExact(sp.Len-1) && b.Exact[y.Group][k][page] >= 0 {
					break
				}
				for _, s := range []kv.Side{kv.K, kv.V} {
					if y.Side(s).RowBytes > 0 {
						w.holds(t, i, s, layout.Packed, b.Tables[y.Group][k][page]*kv.PageCells+int32(pos%kv.PageCells), w.values[sp.Seq][pos])
					}
				}
			}
		}
	}
}

// checkExactPool checks that references to exact pages are counted correctly and
// that none is lost.
func (w *twin) checkExactPool(t rapid.TB, g int) {
	p := &w.c.exact[g]
	refs := make([]int32, len(p.refs))
	for i := range w.c.seqs {
		s := &w.c.seqs[i]
		if p.on() && len(s.exact[g]) != len(s.tables[g]) {
			t.Fatalf("group %d sequence %d: %d pages, %d in the exact table", g, i, len(s.tables[g]), len(s.exact[g]))
		}
		for k, page := range s.exact[g] {
			if page < 0 {
				continue
			}
			refs[page]++
			if s.tables[g][k] < 0 {
				t.Fatalf("group %d sequence %d: page %d was given back and has an exact form", g, i, k)
			}
			if k < s.low[g] && !s.keeps(p.window, k) {
				t.Fatalf("group %d sequence %d: exact page %d below %d belongs to no prompt", g, i, k, s.low[g])
			}
		}
	}
	for _, page := range p.free {
		if refs[page] != 0 {
			t.Fatalf("group %d: exact page %d is free and held", g, page)
		}
		refs[page] = -1
	}
	for page, n := range refs {
		if n == 0 || n > 0 && n != p.refs[page] {
			t.Fatalf("group %d: exact page %d is held by %d, counted %d", g, page, n, p.refs[page])
		}
	}
}

// The end of a prompt stays readable in its original form, however long the
// answer is and whichever request continues the prompt. After a cut or fork at
// the last page border before it, the exact form of every page that rows there
// read is still present.
func TestKeep(t *testing.T) {
	for _, prompt := range []int{1, 64, 65, 100, 128, 200, 257} {
		w := newTwin(t, "late", 1)
		if err := w.c.Keep(0, prompt-1); err != nil {
			t.Fatal(err)
		}
		for left := prompt; left > 0; left -= min(left, 70) {
			w.extend(t, 0, min(left, 70))
		}
		for range 300 {
			w.extend(t, 0, 1)
		}
		w.check(t)
		border := (prompt - 1) / kv.PageCells * kv.PageCells
		w.fork(t, 1, 0, border)
		w.extend(t, 1, 90) // checks that its rows find what they read
		w.truncate(t, 0, border)
		w.extend(t, 0, 90)
		w.check(t)
	}
}

// A sequence cannot be cut to a position where a row would read a packed page that
// a cold run reads exactly.
func TestCutIntoPacked(t *testing.T) {
	w := newTwin(t, "late", 2)
	for range 7 {
		w.extend(t, 0, 64)
	}
	if got := w.c.Reach(0, 320); got != 0 {
		t.Errorf("page 4 was packed and has no exact form, cut back to 320 reaches %d", got)
	}
	if got := w.c.ReuseFrom(0); got != 448 {
		t.Errorf("reused from %d, want only the end, 448", got)
	}
	w.truncate(t, 0, 100)
	if n := w.c.Len(0); n != 0 {
		t.Errorf("%d positions left", n)
	}
	for range 200 {
		w.extend(t, 0, 1)
		w.check(t)
	}
}

// Points keep positions reachable as long as their pages are not needed elsewhere.
// They may be set before or after their rows are read, in forks, and in loaded
// files.
func TestPoints(t *testing.T) {
	w := newTwin(t, "late", 2)
	point := func(seq, pos int) {
		t.Helper()
		if err := w.c.Point(llm.Seq(seq), pos, false); err != nil {
			t.Fatal(err)
		}
	}
	point(0, 130) // 128, which is not read yet
	for range 3 {
		w.extend(t, 0, 90)
	}
	point(0, 270) // 256, which was read
	for range 300 {
		w.extend(t, 0, 1)
	}
	w.check(t)
	for _, x := range [][2]int{{570, 570}, {569, 569}, {512, 512}, {448, 256}, {192, 128}, {64, 0}} {
		if got := w.c.Reach(0, x[0]); got != x[1] {
			t.Errorf("%d is cut to %d, want %d", x[0], got, x[1])
		}
	}
	if got := w.c.ReuseFrom(0); got != 128 {
		t.Errorf("reused from %d, want 128", got)
	}
	w.reload(t, 0, 1)
	w.fork(t, 2, 1, 300)
	if n := w.c.Len(2); n != 256 {
		t.Errorf("the restored copy is forked at %d, want 256", n)
	}
	w.extend(t, 2, 90)
	w.truncate(t, 2, 200)
	if n := w.c.Len(2); n != 128 {
		t.Errorf("the fork is cut to %d, want 128", n)
	}
	w.extend(t, 2, 96)
	w.check(t)
}

// Points are dropped to make room for rows, closest neighbours first. This never
// drops pages that a row or the end of a prompt needs.
func TestPointsYield(t *testing.T) {
	w := newTwin(t, "late", 2)
	if err := w.c.Keep(0, 320); err != nil {
		t.Fatal(err)
	}
	for range 600 / 64 {
		w.extend(t, 0, 64)
		if err := w.c.Point(0, w.c.Len(0), w.c.Len(0) == 128); err != nil {
			t.Fatal(err)
		}
	}
	before := len(w.c.seqs[0].points)
	for seq := 1; seq < 3; seq++ {
		if err := w.c.Keep(llm.Seq(seq), 128); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			w.extend(t, seq, 64)
		}
	}
	w.extend(t, 1, 30)
	w.extend(t, 2, 96)
	w.check(t)
	if n := len(w.c.seqs[0].points); n >= before || n == 0 {
		t.Errorf("%d points, before others came %d", n, before)
	}
	for _, pos := range []int{128, 320} {
		if got := w.c.Reach(0, pos); got != pos {
			t.Errorf("%d is cut to %d", pos, got)
		}
	}
}

// Packing is spread over the steps before a page is read in packed form. No step
// packs much more than its share.
func TestPackSteps(t *testing.T) {
	layers := model(30, 2, 2, 32)
	l, err := layout.Resolve(layout.Want{K: byPage, V: byPage}, layers, exact(layout.Settings{Cells: 1024, Seqs: 1, UBatch: 64}, 64, 4))
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(&l, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := llm.Batch{Spans: []llm.Span{{Rows: 1}}}
	packed := map[int]int{} // number of packed layers, by packed page
	for pos := range 600 {
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
					packed[int(p.Page)]++
				}
			}
			if p.Now {
				t.Errorf("position %d: page %d is packed when it is read", pos, p.Page)
			}
		}
		if work > 1 {
			t.Errorf("position %d: %d layers packed", pos, work)
		}
	}
	for i, page := range c.seqs[0].tables[0][:8] {
		if packed[int(page)] != len(layers) {
			t.Errorf("page %d packed in %d layers of %d", i, packed[int(page)], len(layers))
		}
	}
}

// A page shared by forks is packed once per batch, and before attention if a row of
// one of them reads it in packed form.
func TestPackShared(t *testing.T) {
	l, err := layout.Resolve(layout.Want{K: byPage, V: byPage}, model(2, 2, 2, 32), exact(layout.Settings{Cells: 2048, Seqs: 2, UBatch: 128}, 64, 4))
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range [][]llm.Seq{{0, 1}, {1, 0}} {
		c, err := New(&l, Options{Copier: newMemory(&l)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Keep(0, 320); err != nil {
			t.Fatal(err)
		}
		b := llm.Batch{Spans: []llm.Span{{Rows: 64}}}
		for b.Spans[0].Len < 320 {
			if err := c.Extend(0, 64); err != nil {
				t.Fatal(err)
			}
			b.Spans[0].Len += 64
			c.Fill(&b)
		}
		if n, err := c.Fork(1, 0, 320); err != nil || n != 320 {
			t.Fatal(n, err)
		}
		rows := []int{96, 3} // the first reads the last shared page in packed form, the second does not
		b.Spans = b.Spans[:0]
		for _, seq := range order {
			if err := c.Extend(seq, rows[seq]); err != nil {
				t.Fatal(err)
			}
			b.Spans = append(b.Spans, llm.Span{Seq: seq, Rows: rows[seq], Len: 320 + rows[seq]})
		}
		c.Fill(&b)
		shared := c.seqs[0].tables[0][4]
		n := 0
		for _, p := range b.Packs[0] {
			if p.Page == shared {
				n++
				if !p.Now || p.From != 0 || p.To != p.Of {
					t.Errorf("order %v: %+v", order, p)
				}
			}
		}
		if n != 1 {
			t.Errorf("order %v: packed %d times", order, n)
		}
	}
}

// Impossible saved exact pages are rejected with the reason.
func TestLoadRefusesExact(t *testing.T) {
	_, file := saved(t, "late", 5) // 305 positions: pages 0 to 3 and a part of 4
	for _, c := range []struct {
		name   string
		change func(h *sessionHeader)
		why    string
	}{
		{"window", func(h *sessionHeader) { h.Groups[0].Newest++ }, "an exact window of 65"},
		{"sinks", func(h *sessionHeader) { h.Groups[0].Pinned = 0 }, "0 sinks, here 64 and 4"},
		{"form", func(h *sessionHeader) { h.Layers[0].K.ExactForm = "00" }, "another rotation"},
		{"row", func(h *sessionHeader) { h.Layers[0].K.ExactRow-- }, "exact rows of"},
		{"sink row", func(h *sessionHeader) { h.Layers[4].V.PinnedRow = 0 }, "exact rows of"},
		{"keep", func(h *sessionHeader) { h.Keep = 3 }, "a prompt of 3"},
		{"negative keep", func(h *sessionHeader) { h.Keep = -64 }, "a prompt of -64"},
		{"needless", func(h *sessionHeader) { h.Groups[0].Exact = []int{0, 3, 4} }, "exact page 0 of 305 positions, which nothing needs"},
		{"order", func(h *sessionHeader) { h.Groups[0].Exact = []int{4, 3} }, "exact page 3 after 4"},
		{"twice", func(h *sessionHeader) { h.Groups[0].Exact = []int{3, 3, 4} }, "exact page 3 after 3"},
		{"beyond", func(h *sessionHeader) { h.Groups[0].Exact = []int{3, 4, 5} }, "exact page 5 after 4"},
		{"missing", func(h *sessionHeader) { h.Groups[0].Exact = []int{3} }, "not all exact"},
		{"late", func(h *sessionHeader) { h.Groups[0].Unpacked = 3 }, "3 pages that are not packed, and not all exact"},
		{"gap", func(h *sessionHeader) { h.Groups[0].Exact, h.Groups[0].Unpacked, h.Keep = []int{1, 2, 4}, 2, 128 }, "exact page 2 of 305"},
		{"of nothing", func(h *sessionHeader) { h.Len, h.Keep, h.Groups[0].Exact, h.Groups[0].Unpacked = 0, 0, []int{0}, 0 }, "exact page 0 after -1, of 0 positions"},
		{"negative late", func(h *sessionHeader) { h.Groups[0].Unpacked = -1 }, "-1 pages"},
	} {
		w := newTwin(t, "late", 2)
		err := w.c.Load(bytes.NewReader(reheader(t, slices.Clone(file), c.change)), 0, w.m)
		if !errors.Is(err, ErrSession) || !strings.Contains(fmt.Sprint(err), c.why) {
			t.Errorf("%s: %v, want %q", c.name, err, c.why)
		}
		w.check(t)
	}
}

// A cut before a kept end needs the page that was kept only for that end.
func TestCutBeforeKeep(t *testing.T) {
	w := newTwin(t, "late", 1)
	w.extend(t, 2, 76)
	if err := w.c.Keep(2, 64); err != nil {
		t.Fatal(err)
	}
	w.extend(t, 2, 52)
	w.reload(t, 2, 0)
	w.reload(t, 0, 1)
	w.truncate(t, 1, 1)
	w.extend(t, 1, 1) // extend checks the rows that it reads
	w.check(t)
}

// A conversation that has not calibrated its keys yet shares no pages, because each
// one would pack them with its own calibration.
func TestForkBeforeCalibration(t *testing.T) {
	gw3, err := kv.Parse("gw3")
	if err != nil {
		t.Fatal(err)
	}
	l, err := layout.Resolve(layout.Want{K: gw3, V: gw3}, model(2, 2, 2, 128), layout.Settings{Cells: 1024, Seqs: 2, UBatch: 64, Span: 1024, Uncalibrated: true, SelfCalibrate: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ read, want int }{{64, 0}, {126, 0}, {128, 128}, {192, 192}} {
		cache, err := New(&l, Options{Copier: newMemory(&l)})
		if err != nil {
			t.Fatal(err)
		}
		if !cache.exact[0].selfCalibrated {
			t.Fatal("the keys are not calibrated by conversations")
		}
		if err := cache.Extend(0, c.read); err != nil {
			t.Fatal(err)
		}
		if n, err := cache.Fork(1, 0, c.read); err != nil || n != c.want {
			t.Errorf("forked at %d: %d, %v, want %d", c.read, n, err, c.want)
		}
	}
}
