package layout

import (
	"errors"
	"strings"
	"testing"

	"godwit/engine/kv"
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
	for _, typ := range kv.Types() {
		if typ.Form(128, kv.K).Float || typ.Form(128, kv.V).Float {
			continue
		}
		for name, layers := range map[string][]LayerInfo{"full": model(4, 4, 2, 128), "windows": windows} {
			set := Settings{Cells: reach, Seqs: 2}
			l := budgeted(t, Want{typ, typ}, layers, set, 1.3)
			b := l.Budget()
			if b == nil {
				t.Fatalf("%s %s: no budget", typ.Name, name)
			}
			whole, before := b.whole(), 0
			if whole == 0 || whole >= reach {
				t.Errorf("%s %s: all tokens are exact up to %d", typ.Name, name, whole)
			}
			for pos := range reach {
				q, first := pos/kv.PageCells, Window{Newest: allPositions, Budget: b}.FirstExact(pos)
				if first != 0 && pos < whole || first < before || first > before+3 || first > max(q-1, 0) {
					t.Fatalf("%s %s: position %d reads exact pages from %d, before from %d; whole up to %d", typ.Name, name, pos, first, before, whole)
				}
				if n := b.reads(pos + 1); n > b.Bytes {
					t.Fatalf("%s %s: position %d reads %d bytes of %d", typ.Name, name, pos, n, b.Bytes)
				}
				before = first
			}
			smallest := budgeted(t, Want{typ, typ}, layers, set, 1)
			least := smallest.Budget()
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
			if huge := resolve(t, Want{typ, typ}, layers, set); huge.Budget().firstExact(reach/kv.PageCells) != 0 {
				t.Errorf("%s %s: not all tokens are exact in %d bytes", typ.Name, name, set.Memory)
			}
		}
	}
}

// The window of a page with a row of its own: leaving is the inverse of firstExact.
func TestBudgetLeaves(t *testing.T) {
	l := budgeted(t, Want{kv.Turbo3, kv.Turbo3}, model(2, 2, 2, 128), Settings{Cells: 4096}, 1.2)
	w := l.Layers[0].Exact
	for i := range 4096 / kv.PageCells {
		leaves := w.Leaves(i)
		if leaves < 4096 && (w.FirstExact(leaves) <= i || w.FirstExact(leaves-1) > i) {
			t.Errorf("page %d is read packed from %d on, but the first exact pages there are %d and before %d", i, leaves, w.FirstExact(leaves), w.FirstExact(leaves-1))
		}
	}
}

// Plain floats have no exact form, so the memory only bounds the context.
func TestBudgetFloats(t *testing.T) {
	l := budgeted(t, Want{kv.F16, kv.F16}, model(2, 2, 2, 64), Settings{Cells: 1024}, 1)
	if l.Budget() != nil || l.Layers[0].K.Exact != nil {
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
		_, err := Resolve(Want{kv.Turbo3, kv.Turbo3}, model(2, 2, 2, 128), set)
		var small *BudgetError
		if !errors.As(err, &small) {
			t.Fatal(err)
		}
		set.Memory = small.Least
		if l := resolve(t, Want{kv.Turbo3, kv.Turbo3}, model(2, 2, 2, 128), set); l.Layers[0].Exact.at(8191) < *newest {
			t.Errorf("the newest %d tokens are exact, want %d", l.Layers[0].Exact.at(8191), *newest)
		}
		return small.Least
	}
	if a, b := least(&short), least(&long); a >= b {
		t.Errorf("a window of %d needs %d bytes, one of %d needs %d", short, a, long, b)
	}
}
