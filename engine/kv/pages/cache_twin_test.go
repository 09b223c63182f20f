package pages

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"

	"pgregory.net/rapid"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// byPage is a type that is packed by page.
var byPage = &kv.Type{Name: "late", Elems: 32, Bytes: 14, Codes: kv.Codes{Bits: 3, Packing: kv.Cyclic, At: 2}}

// wants are the types of the shapes that do not use q8_0 and q4_0.
var wants = map[string]layout.Want{
	"late": {K: byPage, V: byPage}, "late windows": {K: byPage, V: kv.Q4_0}, "one": {K: kv.Q4_0, V: byPage},
	"budget late": {K: byPage, V: byPage}, "budget windows": {K: byPage, V: kv.Q4_0}, "budget hybrid": {K: kv.F16, V: byPage},
}

// shapes are the models for testing the cache's bookkeeping.
var shapes = map[string]func() ([]layout.LayerInfo, layout.Settings){
	"full": func() ([]layout.LayerInfo, layout.Settings) {
		return model(2, 2, 2, 32), layout.Settings{Cells: 640, Seqs: 4, UBatch: 96}
	},
	"windows": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(4, 2, 1, 32)
		l[0].Window, l[1].Window, l[2].Window = 40, 200, 40
		return l, layout.Settings{Cells: 1280, Seqs: 3, UBatch: 96}
	},
	"only window": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(2, 2, 1, 32)
		l[0].Window, l[1].Window = 64, 64
		return l, layout.Settings{Cells: 2048, Seqs: 3, UBatch: 64}
	},
	"hybrid": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(4, 2, 1, 32)
		for i := range l {
			if i != 2 {
				l[i].Cached, l[i].StateBytes = false, 12
			}
		}
		return l, layout.Settings{Cells: 640, Seqs: 3, UBatch: 96, Checkpoints: 5}
	},
	"exact": func() ([]layout.LayerInfo, layout.Settings) {
		return model(2, 2, 2, 32), exact(layout.Settings{Cells: 640, Seqs: 4, UBatch: 96}, 64, 4)
	},
	"late": func() ([]layout.LayerInfo, layout.Settings) {
		return model(5, 2, 2, 32), exact(layout.Settings{Cells: 1280, Seqs: 3, UBatch: 96}, 64, 4)
	},
	"one": func() ([]layout.LayerInfo, layout.Settings) {
		return model(2, 2, 2, 32), exact(layout.Settings{Cells: 640, Seqs: 3, UBatch: 200}, 1, 64)
	},
	"late windows": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(6, 2, 1, 32)
		l[0].Window, l[1].Window, l[2].Window = 40, 200, 40
		return l, exact(layout.Settings{Cells: 1280, Seqs: 3, UBatch: 150}, 130, 3)
	},
	"exact hybrid": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(4, 2, 1, 32)
		l[0].Cached, l[0].StateBytes = false, 12
		return l, exact(layout.Settings{Cells: 640, Seqs: 3, UBatch: 96, Checkpoints: 5}, 70, 0)
	},
	"budget": func() ([]layout.LayerInfo, layout.Settings) {
		return model(2, 2, 2, 32), layout.Settings{Cells: 1280, Seqs: 3, UBatch: 96, Reach: 960, Memory: 300 << 10}
	},
	"budget late": func() ([]layout.LayerInfo, layout.Settings) {
		return model(5, 2, 2, 32), exact(layout.Settings{Cells: 1920, Seqs: 3, UBatch: 200, Memory: 900 << 10}, 64, 4)
	},
	"budget windows": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(6, 2, 1, 32)
		l[0].Window, l[1].Window, l[2].Window = 40, 200, 40
		return l, exact(layout.Settings{Cells: 1280, Seqs: 3, UBatch: 150, Memory: 400 << 10}, 1, 3)
	},
	"budget hybrid": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(4, 2, 1, 32)
		l[0].Cached, l[0].StateBytes = false, 12
		return l, exact(layout.Settings{Cells: 960, Seqs: 3, UBatch: 96, Checkpoints: 5, Memory: 400 << 10}, 70, 0)
	},
	"shared and latent": func() ([]layout.LayerInfo, layout.Settings) {
		l := model(3, 4, 1, 64)
		l[0].MLA, l[0].HeadDimV = true, 32
		l[2].Share = 1
		l[1].Window, l[2].Window = 100, 100
		return l, layout.Settings{Cells: 960, Seqs: 3, UBatch: 96}
	},
}

// exact returns settings with an exact window and pinned rows.
func exact(s layout.Settings, newest, pinned int) layout.Settings {
	s.ExactWindow, s.ExactSinks = &newest, &pinned
	return s
}

// twin is a cache, its memory, and the expected content of the memory.
type twin struct {
	c      *Cache
	m      *memory
	values [][]uint32 // indexed by sequence and position
	next   uint32
	b      llm.Batch
}

func newTwin(t rapid.TB, shape string, seed uint64) *twin {
	layers, s := shapes[shape]()
	w, ok := wants[shape]
	if !ok {
		w = layout.Want{K: kv.Q8_0, V: kv.Q4_0}
	}
	l, err := layout.Resolve(w, layers, s)
	if err != nil {
		t.Fatal(err)
	}
	m := newMemory(&l)
	c, err := New(&l, Options{Copier: m, Shuffle: rand.New(rand.NewPCG(seed, 1)), Model: [32]byte{1, 2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	return &twin{c: c, m: m, values: make([][]uint32, s.Seqs)}
}

// extend adds n new positions, or reports that the cache is full.
func (w *twin) extend(t rapid.TB, seq, n int) bool {
	before := slices.Clone(w.c.seqs[seq].tables[0])
	err := w.c.Extend(llm.Seq(seq), n)
	if errors.Is(err, ErrFull) {
		if w.c.Len(llm.Seq(seq)) != len(w.values[seq]) || !slices.Equal(before, w.c.seqs[seq].tables[0]) && w.c.pools[0].window == 0 {
			t.Fatalf("sequence %d changed by a full cache", seq)
		}
		if !w.mayBeFull(seq, n) {
			t.Fatalf("sequence %d of %d by %d: %v", seq, len(w.values[seq]), n, err)
		}
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	w.b.Spans = append(w.b.Spans[:0], llm.Span{Seq: llm.Seq(seq), Rows: n, Len: len(w.values[seq]) + n})
	w.c.Fill(&w.b)
	w.checkBytes(t, seq)
	for range n {
		w.next++
		w.values[seq] = append(w.values[seq], w.next)
		if err := w.m.mark(w.c, &w.b, 0, len(w.values[seq])-1, w.next); err != nil {
			t.Fatal(err)
		}
	}
	w.checkExact(t, &w.b)
	if err := w.m.pack(&w.b); err != nil {
		t.Fatal(err)
	}
	w.checkPacked(t, &w.b)
	w.setState(t, seq)
	return true
}

// checkBytes checks that a sequence holds no more than the memory of a conversation.
func (w *twin) checkBytes(t rapid.TB, seq int) {
	b, s := w.c.layout.Budget(), &w.c.seqs[seq]
	if b == nil || s.len == 0 {
		return
	}
	sum := int64(0)
	for i := range w.c.layout.Layers {
		y := &w.c.layout.Layers[i]
		if !y.Owns() {
			continue
		}
		for _, side := range []kv.Side{kv.K, kv.V} {
			x := y.Side(side)
			sum += int64(x.PinnedRow*y.Exact.Pinned + x.SelfBytes)
			for _, page := range s.tables[y.Group][max(s.first[y.Group], s.visible(y.Window)):] {
				if page >= 0 {
					sum += int64(x.RowBytes * kv.PageCells)
				}
			}
			for _, page := range s.exact[y.Group] {
				if page >= 0 {
					sum += int64(x.ExactRow * kv.PageCells)
				}
			}
		}
	}
	if got := w.c.Bytes(llm.Seq(seq)); sum > b.Bytes || sum > got {
		t.Fatalf("sequence %d of %d positions holds %d bytes, counted %d, allowed %d", seq, s.len, sum, got, b.Bytes)
	}
}

// mayBeFull reports whether a group without a window lacks pages, or whether the
// sequence would be longer than the cache. Windows never run out.
func (w *twin) mayBeFull(seq, n int) bool {
	s := &w.c.seqs[seq]
	pages := (s.len + n + kv.PageCells - 1) / kv.PageCells
	for g := range w.c.pools {
		if p := &w.c.pools[g]; p.window == 0 && pages-len(s.tables[g])+1 > len(p.free) {
			return true
		}
	}
	return pages*kv.PageCells > w.c.layout.Settings.Cells
}

func (w *twin) setState(t rapid.TB, seq int) {
	for i := range w.m.states {
		if n := int(w.c.layout.Layers[i].StateBytes); n > 0 {
			if err := w.m.WriteState(i, w.c.State(llm.Seq(seq)), stateOf(w.values[seq], n)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// check compares every visible row, every state, and the bookkeeping.
func (w *twin) check(t rapid.TB) {
	for seq := range w.values {
		w.checkSeq(t, seq)
	}
	for g := range w.c.pools {
		w.checkPool(t, g)
	}
}

func (w *twin) checkSeq(t rapid.TB, seq int) {
	n := len(w.values[seq])
	if got := w.c.Len(llm.Seq(seq)); got != n {
		t.Fatalf("sequence %d has %d positions, want %d", seq, got, n)
	}
	for i := range w.c.layout.Layers {
		y := &w.c.layout.Layers[i]
		if y.StateBytes > 0 && n > 0 {
			got, err := w.m.state(i, w.c.State(llm.Seq(seq)))
			if err != nil || !bytes.Equal(got, stateOf(w.values[seq], int(y.StateBytes))) {
				t.Fatalf("sequence %d layer %d: state differs at %d (%v)", seq, i, n, err)
			}
		}
		if !y.Owns() {
			continue
		}
		first := 0
		if y.Window > 0 { // pages that a row at the last page border sees
			first = max(n/kv.PageCells*kv.PageCells-y.Window+1, 0)
		}
		for _, s := range []kv.Side{kv.K, kv.V} {
			for pos := range n {
				cells := [3]int32{w.c.Cell(y.Group, llm.Seq(seq), pos), w.c.ExactCell(y.Group, llm.Seq(seq), pos), w.c.PinnedCell(y.Group, llm.Seq(seq), pos)}
				if cells[layout.Packed] < 0 && pos >= first {
					t.Fatalf("sequence %d layer %d: visible position %d of %d was given back", seq, i, pos, n)
				}
				if unpacked := w.c.unpacked(&w.c.seqs[seq], y.Group); y.Side(s).PackedByPage() && pos/kv.PageCells >= (n-1)/kv.PageCells+1-unpacked {
					cells[layout.Packed] = -1 // not packed yet
				}
				for p, cell := range cells {
					if cell >= 0 && y.Side(s).Row(layout.Tier(p)) > 0 {
						w.holds(t, i, s, layout.Tier(p), cell, w.values[seq][pos])
					}
				}
			}
		}
	}
}

// checkPool checks that references are counted correctly, that no free page is in a
// table, that no page is free twice, and that none is lost.
func (w *twin) checkPool(t rapid.TB, g int) {
	p := &w.c.pools[g]
	refs := make([]int32, len(p.refs))
	for i := range w.c.seqs {
		s := &w.c.seqs[i]
		if len(s.tables[g]) != (s.len+kv.PageCells-1)/kv.PageCells {
			t.Fatalf("group %d sequence %d: %d pages for %d positions", g, i, len(s.tables[g]), s.len)
		}
		for k, page := range s.tables[g] {
			if (page < 0) != (k < s.first[g]) {
				t.Fatalf("group %d sequence %d: page %d of the table is %d, first held is %d", g, i, k, page, s.first[g])
			}
			if page >= 0 {
				refs[page]++
			}
		}
	}
	for _, page := range p.free {
		if refs[page] != 0 {
			t.Fatalf("group %d: page %d is free and held", g, page)
		}
		refs[page] = -1
	}
	w.checkExactPool(t, g)
	for page, n := range refs {
		if n == 0 || n > 0 && n != p.refs[page] {
			t.Fatalf("group %d: page %d is held by %d, counted %d", g, page, n, p.refs[page])
		}
	}
}

// plain reports whether the sequence can be cut to any position, because there is
// neither a window, nor a state, nor a form that is dropped.
func (w *twin) plain() bool {
	return !w.c.states.on() && !w.c.hasExact() && !slices.ContainsFunc(w.c.pools, func(p pool) bool { return p.window > 0 })
}

func (w *twin) truncate(t rapid.TB, seq, pos int) {
	n, reach := len(w.values[seq]), w.c.Reach(llm.Seq(seq), pos)
	got, err := w.c.Truncate(llm.Seq(seq), pos)
	if err != nil || got > pos || got > n || got != reach || w.plain() && got != min(pos, n) {
		t.Fatalf("sequence %d of %d cut to %d: %d, expected %d (%v)", seq, n, pos, got, reach, err)
	}
	if !w.c.states.on() && pos == n/kv.PageCells*kv.PageCells && got != pos {
		t.Fatalf("sequence %d of %d could not be cut to its last page border %d: %d", seq, n, pos, got)
	}
	w.values[seq] = w.values[seq][:got:got]
}

func (w *twin) fork(t rapid.TB, dst, src, pos int) {
	got, err := w.c.Fork(llm.Seq(dst), llm.Seq(src), pos)
	if err != nil || got > pos || w.plain() && got != pos || pos == len(w.values[src]) && got != pos {
		t.Fatalf("fork of %d to %d at %d of %d: %d (%v)", src, dst, pos, len(w.values[src]), got, err)
	}
	w.values[dst] = slices.Clone(w.values[src][:got])
}

// reload saves one sequence and loads it as another.
func (w *twin) reload(t rapid.TB, seq, to int) {
	var file bytes.Buffer
	if err := w.c.Save(&file, llm.Seq(seq), w.m); err != nil {
		t.Fatal(err)
	}
	file.WriteString("rest")
	saved, before := slices.Clone(w.values[seq]), w.c.ReuseFrom(llm.Seq(seq)) // loading may take its checkpoints
	switch err := w.c.Load(&file, llm.Seq(to), w.m); {
	case errors.Is(err, ErrFull):
		w.values[to] = nil
		return
	case err != nil:
		t.Fatal(err)
	}
	w.values[to] = saved
	if got := w.c.ReuseFrom(llm.Seq(to)); len(saved) > 0 && got < before {
		t.Fatalf("restored, it is reused from %d, before from %d", got, before)
	}
	if file.String() != "rest" {
		t.Fatalf("%d bytes left, want 4: load read too far or not far enough", file.Len())
	}
}

// newTwinCopy repeats a twin's history, including its checkpoints.
func newTwinCopy(t rapid.TB, w *twin) *twin {
	n := newTwin(t, "hybrid", 8)
	for range len(w.values[0]) / 50 {
		n.extend(t, 0, 50)
		if err := n.c.Checkpoint(0); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (w *twin) cutTo(t rapid.TB, seq, pos int) int {
	w.truncate(t, seq, pos)
	w.check(t)
	return len(w.values[seq])
}
