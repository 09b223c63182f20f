package layout

import (
	"strings"
	"testing"

	"godwit/engine/kv"
)

// FirstExact follows the rule of the spec at every position.
func TestFirstExact(t *testing.T) {
	for _, newest := range []int{0, 1, 2, 32, 63, 64, 65, 128, 129, 1000} {
		w := Window{Newest: newest}
		for pos := range 700 {
			got := w.FirstExact(pos)
			for page := range pos/kv.PageCells + 1 {
				holds := false // some newest position up to pos is in the page
				for p := max(pos-newest+1, 0); p <= pos; p++ {
					holds = holds || p/kv.PageCells == page
				}
				if holds != (page >= got) {
					t.Fatalf("window %d, position %d: page %d exact %v, first exact %d", newest, pos, page, holds, got)
				}
			}
		}
	}
}

// Checks what the layout says about the exact tier.
func TestWindowLayout(t *testing.T) {
	layers := model(2, 4, 2, 64)
	layers[1].Window = 512
	l := resolve(t, want(t, "turbo3", "f16"), layers, exact(Settings{Cells: 4096, Seqs: 2, UBatch: 512}, 64, 4))
	k, v := &l.Layers[0].K, &l.Layers[0].V
	if k.Exact == nil || k.Exact.Name != "q8_0" || k.Exact.Rotation.Size != 128 || k.ExactRow != 2*4*34 || k.PinnedRow != 2*128*2 {
		t.Errorf("K: %+v", k)
	}
	if v.Exact != nil || v.ExactBytes != 0 {
		t.Errorf("V in f16 has an exact form: %+v", v)
	}
	// Each of two sequences keeps two pages, plus one before the prompt's end, and
	// a chunk leaves up to four behind. Of 64 pages, two may serve points, which is
	// less than the other sequence's reserve.
	if got, want := k.ExactBytes, int64((2*3+4)*64*k.ExactRow+2*4*k.PinnedRow); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
	if got, want := l.Passing[kv.K], int64(8*64*k.ExactRow); got != want || l.Passing[kv.V] != 0 {
		t.Errorf("%d bytes of passing pages, want %d", got, want)
	}
	one := resolve(t, want(t, "turbo3", "f16"), layers, exact(Settings{Cells: 4096, Seqs: 1, UBatch: 512}, 64, 4))
	if got, want := one.Layers[0].K.ExactBytes, int64((3+2+2)*64*k.ExactRow+4*k.PinnedRow); got != want {
		t.Errorf("%d bytes with one sequence, want %d, two pages for points among them", got, want)
	}
	sum := l.Passing[kv.K]
	for i := range l.Layers {
		y := &l.Layers[i]
		sum += y.K.Bytes + y.V.Bytes + y.K.ExactBytes + y.V.ExactBytes
	}
	if l.Bytes() != sum {
		t.Errorf("%d bytes in all, parts give %d", l.Bytes(), sum)
	}
	if got := resolve(t, want(t, "q8_0", "q8_0-rot"), layers, exact(Settings{Cells: 64}, 1, 0)).Layers[0].V.Exact; got.Name != "f16" || got.Rotation.Size != 64 {
		t.Errorf("beside 8 bits: %+v", got)
	}
	said := 0
	for _, e := range l.Events {
		if strings.Contains(e.String(), "newest 64 and the first 4 tokens are also kept exact") {
			said++
		}
	}
	if said != len(l.Groups) {
		t.Errorf("exact windows of %d groups, said of %d", len(l.Groups), said)
	}
	if l := resolve(t, want(t, "turbo3", "turbo3"), layers, Settings{Cells: 64}); l.Layers[0].Exact != (Window{}) || l.Layers[0].K.Exact != nil {
		t.Errorf("nothing asked: %+v", l.Layers[0])
	}
	for _, bad := range [][2]int{{-1, 0}, {1 << 17, 0}, {0, -1}, {0, 65}} {
		if _, err := Resolve(Want{}, layers, exact(Settings{Cells: 64}, bad[0], bad[1])); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

// exact returns settings with an exact window and pinned rows.
func exact(s Settings, newest, pinned int) Settings {
	s.ExactWindow, s.ExactSinks = &newest, &pinned
	return s
}
