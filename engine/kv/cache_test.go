package kv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/engine/llm"
)

// byPage is a type that is packed by page.
var byPage = &Type{Name: "late", Elems: 32, Bytes: 14, Codes: Codes{Bits: 3, Packing: Cyclic, At: 2}}

// wants are the types of the shapes that have others than q8_0 and q4_0.
var wants = map[string]Want{
	"late": {byPage, byPage}, "late windows": {byPage, Q4_0}, "one": {Q4_0, byPage},
}

// shapes are the models that the books are tested on.
var shapes = map[string]func() ([]LayerInfo, Settings){
	"full": func() ([]LayerInfo, Settings) {
		return model(2, 2, 2, 32), Settings{Cells: 640, Seqs: 4, UBatch: 96}
	},
	"windows": func() ([]LayerInfo, Settings) {
		l := model(4, 2, 1, 32)
		l[0].Window, l[1].Window, l[2].Window = 40, 200, 40
		return l, Settings{Cells: 1280, Seqs: 3, UBatch: 96}
	},
	"only window": func() ([]LayerInfo, Settings) {
		l := model(2, 2, 1, 32)
		l[0].Window, l[1].Window = 64, 64
		return l, Settings{Cells: 2048, Seqs: 3, UBatch: 64}
	},
	"hybrid": func() ([]LayerInfo, Settings) {
		l := model(4, 2, 1, 32)
		for i := range l {
			if i != 2 {
				l[i].Cached, l[i].StateBytes = false, 12
			}
		}
		return l, Settings{Cells: 640, Seqs: 3, UBatch: 96, Checkpoints: 5}
	},
	"exact": func() ([]LayerInfo, Settings) {
		return model(2, 2, 2, 32), exact(Settings{Cells: 640, Seqs: 4, UBatch: 96}, 64, 4)
	},
	"late": func() ([]LayerInfo, Settings) {
		return model(5, 2, 2, 32), exact(Settings{Cells: 1280, Seqs: 3, UBatch: 96}, 64, 4)
	},
	"one": func() ([]LayerInfo, Settings) {
		return model(2, 2, 2, 32), exact(Settings{Cells: 640, Seqs: 3, UBatch: 200}, 1, 64)
	},
	"late windows": func() ([]LayerInfo, Settings) {
		l := model(6, 2, 1, 32)
		l[0].Window, l[1].Window, l[2].Window = 40, 200, 40
		return l, exact(Settings{Cells: 1280, Seqs: 3, UBatch: 150}, 130, 3)
	},
	"exact hybrid": func() ([]LayerInfo, Settings) {
		l := model(4, 2, 1, 32)
		l[0].Cached, l[0].StateBytes = false, 12
		return l, exact(Settings{Cells: 640, Seqs: 3, UBatch: 96, Checkpoints: 5}, 70, 0)
	},
	"shared and latent": func() ([]LayerInfo, Settings) {
		l := model(3, 4, 1, 64)
		l[0].MLA, l[0].HeadDimV = true, 32
		l[2].Share = 1
		l[1].Window, l[2].Window = 100, 100
		return l, Settings{Cells: 960, Seqs: 3, UBatch: 96}
	},
}

// exact are settings with an exact window and sinks.
func exact(s Settings, newest, pinned int) Settings {
	s.ExactWindow, s.ExactSinks = &newest, &pinned
	return s
}

// twin is a cache, its memory, and what the memory should hold.
type twin struct {
	c      *Cache
	m      *memory
	values [][]uint32 // by sequence and position
	next   uint32
	b      llm.Batch
}

func newTwin(t rapid.TB, shape string, seed uint64) *twin {
	layers, s := shapes[shape]()
	w, ok := wants[shape]
	if !ok {
		w = Want{Q8_0, Q4_0}
	}
	l, err := Resolve(w, layers, s)
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

// extend adds n fresh positions, or says that the cache is full.
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

// mayBeFull reports whether a group without window lacks pages, or the
// sequence would be longer than the cache. Windows never run out.
func (w *twin) mayBeFull(seq, n int) bool {
	s := &w.c.seqs[seq]
	pages := (s.len + n + PageCells - 1) / PageCells
	for g := range w.c.pools {
		if p := &w.c.pools[g]; p.window == 0 && pages-len(s.tables[g])+1 > len(p.free) {
			return true
		}
	}
	return pages*PageCells > w.c.layout.Settings.Cells
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

// check compares every visible row, every state, and the books.
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
		if y.Window > 0 { // what a row at the last page border sees
			first = max(n/PageCells*PageCells-y.Window+1, 0)
		}
		for _, s := range []Side{K, V} {
			for pos := range n {
				cells := [3]int32{w.c.Cell(y.Group, llm.Seq(seq), pos), w.c.ExactCell(y.Group, llm.Seq(seq), pos), w.c.PinnedCell(y.Group, llm.Seq(seq), pos)}
				if cells[Packed] < 0 && pos >= first {
					t.Fatalf("sequence %d layer %d: visible position %d of %d was given back", seq, i, pos, n)
				}
				if unpacked := w.c.unpacked(&w.c.seqs[seq], y.Group); y.Side(s).PackedByPage() && pos/PageCells >= (n-1)/PageCells+1-unpacked {
					cells[Packed] = -1 // not packed yet
				}
				for p, cell := range cells {
					if cell >= 0 && y.Side(s).Row(Tier(p)) > 0 {
						w.holds(t, i, s, Tier(p), cell, w.values[seq][pos])
					}
				}
			}
		}
	}
}

// checkPool: references are counted right, free pages are in no table, no page
// is free twice, and none is lost.
func (w *twin) checkPool(t rapid.TB, g int) {
	p := &w.c.pools[g]
	refs := make([]int32, len(p.refs))
	for i := range w.c.seqs {
		s := &w.c.seqs[i]
		if len(s.tables[g]) != (s.len+PageCells-1)/PageCells {
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

// Random sequences of operations against slices of values.
func TestCacheProperties(t *testing.T) {
	for shape := range shapes {
		t.Run(shape, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newTwin(t, shape, rapid.Uint64().Draw(t, "seed"))
				seqs := len(w.values)
				seq := rapid.IntRange(0, seqs-1)
				var kept []*pieces
				t.Repeat(map[string]func(*rapid.T){
					"extend": func(t *rapid.T) {
						w.extend(t, seq.Draw(t, "seq"), rapid.IntRange(0, w.c.layout.Settings.UBatch).Draw(t, "n"))
					},
					"truncate": func(t *rapid.T) {
						i := seq.Draw(t, "seq")
						w.truncate(t, i, rapid.IntRange(0, len(w.values[i])+1).Draw(t, "pos"))
					},
					"fork": func(t *rapid.T) {
						src := seq.Draw(t, "src")
						dst := (src + rapid.IntRange(1, seqs-1).Draw(t, "dst")) % seqs
						w.fork(t, dst, src, rapid.IntRange(0, len(w.values[src])).Draw(t, "pos"))
					},
					"drop": func(t *rapid.T) {
						i := seq.Draw(t, "seq")
						w.c.Drop(llm.Seq(i))
						w.values[i] = nil
					},
					"keep": func(t *rapid.T) {
						i := seq.Draw(t, "seq")
						if err := w.c.Keep(llm.Seq(i), rapid.IntRange(0, 2*len(w.values[i])+64).Draw(t, "pos")); err != nil {
							t.Fatal(err)
						}
					},
					"point": func(t *rapid.T) {
						i := seq.Draw(t, "seq")
						if err := w.c.Point(llm.Seq(i), rapid.IntRange(0, 2*len(w.values[i])+64).Draw(t, "pos"), rapid.Bool().Draw(t, "parted")); err != nil {
							t.Fatal(err)
						}
					},
					"checkpoint": func(t *rapid.T) {
						if err := w.c.Checkpoint(llm.Seq(seq.Draw(t, "seq"))); err != nil {
							t.Fatal(err)
						}
					},
					"save and load": func(t *rapid.T) {
						w.reload(t, seq.Draw(t, "seq"), seq.Draw(t, "to"))
					},
					"keep pieces": func(t *rapid.T) {
						if len(kept) < 4 {
							kept = append(kept, &pieces{})
						}
						kept[rapid.IntRange(0, len(kept)-1).Draw(t, "kept")].take(t, w, seq.Draw(t, "seq"))
					},
					"adopt": func(t *rapid.T) {
						if len(kept) > 0 {
							k := kept[rapid.IntRange(0, len(kept)-1).Draw(t, "kept")]
							k.adopt(t, w, seq.Draw(t, "seq"), rapid.IntRange(0, len(k.values)).Draw(t, "most"))
						}
					},
					"": func(t *rapid.T) { w.check(t) },
				})
			})
		})
	}
}

// plain reports whether any position can be cut to: no window, no state, and no
// form that goes.
func (w *twin) plain() bool {
	return !w.c.states.on() && !w.c.hasExact() && !slices.ContainsFunc(w.c.pools, func(p pool) bool { return p.window > 0 })
}

func (w *twin) truncate(t rapid.TB, seq, pos int) {
	n, reach := len(w.values[seq]), w.c.Reach(llm.Seq(seq), pos)
	got, err := w.c.Truncate(llm.Seq(seq), pos)
	if err != nil || got > pos || got > n || got != reach || w.plain() && got != min(pos, n) {
		t.Fatalf("sequence %d of %d cut to %d: %d, expected %d (%v)", seq, n, pos, got, reach, err)
	}
	if !w.c.states.on() && pos == n/PageCells*PageCells && got != pos {
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

// A sequence saved from one cache loads into another with other pages.
func TestSaveAcrossCaches(t *testing.T) {
	for shape := range shapes {
		a, b := newTwin(t, shape, 1), newTwin(t, shape, 2)
		b.extend(t, 1, 50)
		for range 4 {
			a.extend(t, 0, 61)
		}
		var file bytes.Buffer
		if err := a.c.Save(&file, 0, a.m); err != nil {
			t.Fatal(err)
		}
		again := bytes.NewReader(file.Bytes())
		if err := b.c.Load(&file, 2, b.m); err != nil {
			t.Fatalf("%s: %v", shape, err)
		}
		b.values[2] = slices.Clone(a.values[0])
		b.check(t)
		var second bytes.Buffer
		if err := b.c.Save(&second, 2, b.m); err != nil {
			t.Fatal(err)
		}
		first := make([]byte, again.Len())
		if _, err := again.Read(first); err != nil || !bytes.Equal(first, second.Bytes()) {
			t.Errorf("%s: the loaded sequence saves to other bytes (%v)", shape, err)
		}
		if !b.extend(t, 2, 70) {
			t.Errorf("%s: full", shape)
		}
		b.check(t)
	}
}

// A fork shares every page until one side writes into the last, partial one,
// which is then copied: only its filled cells, once.
func TestForkCopiesOnce(t *testing.T) {
	w := newTwin(t, "full", 3)
	w.extend(t, 0, 96)
	w.fork(t, 1, 0, 96)
	if w.m.copies != 0 || w.c.Free() != 640-128 {
		t.Errorf("after the fork: %d copies, %d cells free", w.m.copies, w.c.Free())
	}
	w.extend(t, 1, 1)
	w.extend(t, 0, 1)
	w.check(t)
	if w.m.copies != 1 || w.c.Free() != 640-192 {
		t.Errorf("after both wrote: %d copies, %d cells free", w.m.copies, w.c.Free())
	}
	w.fork(t, 2, 0, 64)
	w.extend(t, 2, 10)
	w.check(t)
	if w.m.copies != 1 {
		t.Errorf("a fork at a page border copies: %d", w.m.copies)
	}
}

func TestFull(t *testing.T) {
	w := newTwin(t, "full", 4)
	for range 6 {
		w.extend(t, 0, 96)
	}
	err := w.c.Extend(1, 65)
	if want := "kv: cache is full: sequence 1 wants 65 cells after 0, 64 of 640 free"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if !w.extend(t, 1, 64) || w.extend(t, 1, 1) {
		t.Error("the last page could not be filled, or more than it")
	}
	for _, seq := range []llm.Seq{-1, 4} {
		if err := w.c.Extend(seq, 1); !errors.Is(err, ErrSequence) {
			t.Errorf("sequence %d: %v", seq, err)
		}
	}
}

// Windows take their share of the pool and not the context: every sequence
// can run to any length beside the others.
func TestWindowRuns(t *testing.T) {
	w := newTwin(t, "only window", 5)
	for step := range 31 {
		for seq := range 3 {
			if !w.extend(t, seq, 64) {
				t.Fatalf("step %d: full", step)
			}
		}
		if step%5 == 0 {
			w.check(t)
		}
	}
	if got, want := w.c.layout.Groups[0].Pages, 3*(2+2); got != want {
		t.Errorf("%d pages, want %d", got, want)
	}
}

// While the pool has room a windowed sequence can still be cut far back.
func TestWindowKeepsWhileRoom(t *testing.T) {
	w := newTwin(t, "only window", 6)
	for range 8 {
		w.extend(t, 0, 64)
	}
	w.truncate(t, 0, 100)
	if len(w.values[0]) != 100 {
		t.Errorf("cut to %d, want 100", len(w.values[0]))
	}
	for range 14 {
		w.extend(t, 0, 64)
	}
	w.truncate(t, 0, 100)
	if len(w.values[0]) != 0 {
		t.Errorf("cut to %d though the window there is gone", len(w.values[0]))
	}
	w.check(t)
}

// Recurrent models rewind to checkpoints, the oldest of which is given up.
func TestCheckpoints(t *testing.T) {
	w := newTwin(t, "hybrid", 7)
	for range 7 { // five slots
		w.extend(t, 0, 50)
		if err := w.c.Checkpoint(0); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ pos, want int }{{349, 300}, {299, 250}, {160, 150}, {149, 0}} {
		fork := newTwinCopy(t, w)
		if got := fork.cutTo(t, 0, c.pos); got != c.want {
			t.Errorf("cut to %d reached %d, want %d", c.pos, got, c.want)
		}
	}
	w.fork(t, 1, 0, 310)
	if len(w.values[1]) != 300 {
		t.Errorf("fork at 310 reached %d, want 300", len(w.values[1]))
	}
	w.c.Drop(0)
	w.values[0] = nil
	w.truncate(t, 1, 260)
	if len(w.values[1]) != 250 {
		t.Errorf("the fork rewinds to %d, want 250", len(w.values[1]))
	}
	w.check(t)
}

// newTwinCopy replays a twin with its checkpoints.
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

// Without a full group the windows never run out, and Free is the context.
func TestFree(t *testing.T) {
	w := newTwin(t, "only window", 11)
	w.extend(t, 0, 64)
	if got := w.c.Free(); got != 2048 {
		t.Errorf("%d cells free, want 2048", got)
	}
	w = newTwin(t, "windows", 11)
	w.extend(t, 0, 65)
	if got := w.c.Free(); got != 1280-128 {
		t.Errorf("%d cells free, want %d", got, 1280-128)
	}
}

func TestFill(t *testing.T) {
	w := newTwin(t, "windows", 9)
	w.extend(t, 2, 90)
	w.extend(t, 0, 10)
	b := llm.Batch{Spans: []llm.Span{{Seq: 2, Len: 90}, {Seq: 0, Len: 10}}}
	w.c.Fill(&b)
	if len(b.Tables) != 3 || len(b.Exact) != 3 || len(b.Packs) != 3 {
		t.Fatalf("%d, %d and %d groups", len(b.Tables), len(b.Exact), len(b.Packs))
	}
	for g, spanTables := range b.Tables {
		if len(b.Exact[g])+len(b.Packs[g]) > 0 {
			t.Errorf("group %d has exact pages and no exact window", g)
		}
		for i, want := range []int{2, 1} {
			table := spanTables[i]
			if len(table) != want {
				t.Fatalf("group %d span %d: %v", g, i, table)
			}
			for pos := range b.Spans[i].Len {
				if cell := table[pos/PageCells]*PageCells + int32(pos%PageCells); cell != w.c.Cell(g, b.Spans[i].Seq, pos) {
					t.Fatalf("group %d span %d position %d: cell %d", g, i, pos, cell)
				}
			}
		}
	}
}

// Nothing on the token path allocates.
func TestStepAllocates(t *testing.T) {
	for _, shape := range []string{"windows", "late windows"} {
		w := newTwin(t, shape, 10)
		b := llm.Batch{Spans: []llm.Span{{Seq: 0, Rows: 1}, {Seq: 1, Rows: 1}}}
		step := func() {
			for seq := range llm.Seq(2) {
				if err := w.c.Extend(seq, 1); err != nil {
					t.Fatal(err)
				}
				b.Spans[seq].Len = w.c.Len(seq)
			}
			w.c.Fill(&b)
		}
		step()
		if n := testing.AllocsPerRun(300, step); n != 0 {
			t.Errorf("%s: %g allocations a step", shape, n)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	layers, s := shapes["windows"]()
	s.Cells = 1 << 20
	l := resolve(b, Want{}, layers, s)
	c, err := New(&l, Options{})
	if err != nil {
		b.Fatal(err)
	}
	batch := llm.Batch{Spans: []llm.Span{{Seq: 0}}}
	for b.Loop() {
		if err := c.Extend(0, 1); err != nil {
			c.Drop(0)
		}
		c.Fill(&batch)
	}
	if len(batch.Tables) != 3 {
		b.Fatal(fmt.Sprint(batch.Tables))
	}
}
