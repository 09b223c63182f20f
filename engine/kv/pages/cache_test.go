package pages

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// Compares random sequences of operations with slices of values.
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
						i := seq.Draw(t, "seq")
						n := rapid.IntRange(0, w.c.layout.Settings.UBatch).Draw(t, "n")
						if most := cmp.Or(w.c.layout.Settings.Reach, w.c.layout.Settings.Cells) - len(w.values[i]); w.c.layout.Budget() != nil {
							n = min(n, w.c.Step(llm.Seq(i)), most)
						}
						w.extend(t, i, n)
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

// A saved sequence loads into another cache with other pages.
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

// A fork shares all pages until one side writes into the last, partial page. That
// page is then copied once, with only its filled cells.
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

// Windows limit their share of the pool but not the context. Every sequence can
// grow to any length next to the others.
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

// While the pool has room, a windowed sequence can still be cut far back.
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

// Recurrent models rewind to checkpoints, of which the oldest is dropped first.
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

// Without a group for the full context, windows never run out, and Free returns the
// context.
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
				if cell := table[pos/kv.PageCells]*kv.PageCells + int32(pos%kv.PageCells); cell != w.c.Cell(g, b.Spans[i].Seq, pos) {
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
	l := resolve(b, layout.Want{}, layers, s)
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
