package pages

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"godwit/engine/kv"
	"godwit/engine/llm"
)

// pieces are the pages and points of a text, as in a store.
type pieces struct {
	values []uint32
	pages  []map[int][]byte // keyed by page, by group
	points map[int][]byte
}

func (p *pieces) Pages() int               { return len(p.pages) }
func (p *pieces) Has(page, group int) bool { return p.pages[page][group] != nil }
func (p *pieces) Points() []int            { return slices.Sorted(maps.Keys(p.points)) }

// take adds the pieces of a sequence. If the text differs from the stored one, the
// stored pieces after that point are dropped.
func (p *pieces) take(t rapid.TB, w *twin, seq int) {
	values := w.values[seq]
	same := 0
	for same < min(len(values), len(p.values)) && values[same] == p.values[same] {
		same++
	}
	p.pages = p.pages[:min(same/kv.PageCells, len(p.pages))]
	maps.DeleteFunc(p.points, func(pos int, _ []byte) bool { return pos > same })
	p.values = slices.Clone(values)
	if p.points == nil {
		p.points = map[int][]byte{}
	}
	for i := range len(values) / kv.PageCells {
		if i == len(p.pages) {
			p.pages = append(p.pages, map[int][]byte{})
		}
		for g := range w.c.Parts() {
			data, err := w.c.PageData(llm.Seq(seq), g, i, w.m)
			if err != nil {
				t.Fatal(err)
			}
			if data != nil {
				p.pages[i][g] = data
			}
		}
	}
	for _, pos := range w.c.Continues(llm.Seq(seq)) {
		data, err := w.c.PointData(llm.Seq(seq), pos, w.m)
		if err != nil || data == nil {
			t.Fatalf("point at %d: %v, %v", pos, data == nil, err)
		}
		p.points[pos] = data
	}
}

// adopt builds a sequence from the pieces.
func (p *pieces) adopt(t rapid.TB, w *twin, seq, most int) int {
	pos := w.c.Longest(p, most)
	if pos == 0 {
		return 0
	}
	w.c.Drop(llm.Seq(seq))
	w.values[seq] = nil
	full := w.mayBeFull(seq, pos)
	err := w.c.Adopt(llm.Seq(seq), pos, func(page, group int) ([]byte, error) { return p.pages[page][group], nil }, p.points[pos], w.m)
	if errors.Is(err, ErrFull) && full {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	w.values[seq] = slices.Clone(p.values[:pos])
	w.check(t)
	return pos
}

// Another cache can adopt a sequence at its end, and at its last page border in
// models that continue anywhere.
func TestAdopt(t *testing.T) {
	for shape := range shapes {
		a, b := newTwin(t, shape, 1), newTwin(t, shape, 2)
		b.extend(t, 1, 50)
		for range 4 {
			a.extend(t, 0, 64)
		}
		if err := errors.Join(a.c.Checkpoint(0), a.c.Keep(0, 256)); err != nil {
			t.Fatal(err)
		}
		a.extend(t, 0, 30)
		if err := a.c.Checkpoint(0); err != nil {
			t.Fatal(err)
		}
		want := 256
		if a.c.states.on() {
			want = 286
		}
		var p pieces
		p.take(t, a, 0)
		if got := p.adopt(t, b, 2, 286); got != want {
			t.Errorf("%s: adopted %d of 286, want %d", shape, got, want)
		}
		if !b.extend(t, 2, 70) {
			t.Errorf("%s: full", shape)
		}
		b.check(t)
		b.c.Drop(2)
		b.values[2] = nil
		if got := p.adopt(t, b, 0, 285); got != 256 {
			t.Errorf("%s: adopted %d of 285, want 256", shape, got)
		}
	}
}

// Pieces of a wrong size leave the sequence empty.
func TestAdoptRefuses(t *testing.T) {
	for shape := range shapes {
		w := newTwin(t, shape, 1)
		for range 4 {
			w.extend(t, 0, 64)
		}
		if err := errors.Join(w.c.Checkpoint(0), w.c.Keep(0, 256)); err != nil {
			t.Fatal(err)
		}
		w.extend(t, 0, 64)
		var p pieces
		p.take(t, w, 0)
		pos := w.c.Longest(&p, 256)
		for _, cut := range []func(page, point []byte) ([]byte, []byte){
			func(page, point []byte) ([]byte, []byte) { return page[:len(page)-1], point },
			func(page, point []byte) ([]byte, []byte) { return append(page, 0), point },
			func(page, point []byte) ([]byte, []byte) { return nil, point },
			func(page, point []byte) ([]byte, []byte) { return page, append(slices.Clone(point), 0) },
			func(page, point []byte) ([]byte, []byte) { return page, point[:max(len(point)-1, 0)] },
			func(page, point []byte) ([]byte, []byte) { return page, nil },
		} {
			changed := false
			_, point := cut([]byte{1}, p.points[pos])
			changed = w.c.HasPoints() && len(point) != len(p.points[pos])
			err := w.c.Adopt(1, pos, func(page, group int) ([]byte, error) {
				data, _ := cut(slices.Clone(p.pages[page][group]), nil2(p.points[pos]))
				changed = changed || len(data) != len(p.pages[page][group])
				return data, nil
			}, point, w.m)
			if changed != (err != nil) {
				t.Errorf("%s: changed %v, %v", shape, changed, err)
			}
			if err != nil && (!errors.Is(err, ErrSession) || w.c.Len(1) != 0) {
				t.Errorf("%s: %d positions, %v", shape, w.c.Len(1), err)
			}
			w.c.Drop(1)
			w.check(t)
		}
	}
}

// nil2 is a point that may be one byte short.
func nil2(point []byte) []byte { return append([]byte{0}, point...) }
