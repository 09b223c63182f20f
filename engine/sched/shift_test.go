package sched_test

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"testing"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// shifted returns the fake model's answer in a context that drops its middle
// when it is full, computed from the tokens alone.
func shifted(prompt []llm.Token, n, context, keep, window int) (out []llm.Token, shifts int) {
	tokens := append([]llm.Token(nil), prompt...)
	for range n {
		sum := fnv.New32a()
		for _, w := range []int{0, window} {
			for _, t := range tokens[first(w, len(tokens)-1):] {
				add(sum, int(t))
			}
		}
		next := llm.Token(1 + sum.Sum32()%(vocab-1))
		if len(tokens) == context {
			k := min(max(keep, 4), context/2)
			tokens = slices.Concat(tokens[:k], tokens[k+(context-k)/2:])
			shifts++
		}
		tokens, out = append(tokens, next), append(out, next)
	}
	return out, shifts
}

// A full sequence keeps its start, drops half of the rest and continues. Other
// sequences are not affected. With windows, the shorter text is read again.
func TestShift(t *testing.T) {
	for _, window := range []int{0, 40} {
		for _, keep := range []int{0, 10, -1, 1000} {
			t.Run(fmt.Sprintf("window %d, keep %d", window, keep), func(t *testing.T) {
				const context = 200
				s, _ := newTiny(t, tiny{cells: 640, seqs: 3, context: context, rows: 32, window: window, shift: true, seed: 4})
				prompt := text(1, 90)
				other := text(2, 50)
				beside, err := begin(t.Context(), s, sched.Job{Prompt: other, Slot: -1}, 140, nil)
				if err != nil {
					t.Fatal(err)
				}
				r := run(t, s, sched.Job{Prompt: prompt, Slot: -1, Keep: keep}, 500)
				kept := keep
				if keep < 0 {
					kept = len(prompt)
				}
				want, shifts := shifted(prompt, 500, context, kept, window)
				if r.err != nil || r.finish != sched.Stopped {
					t.Fatalf("finish %d, %v", r.finish, r.err)
				}
				for i := range want {
					if r.tokens[i] != want[i] {
						t.Fatalf("token %d is %d, want %d", i, r.tokens[i], want[i])
					}
				}
				if r.stats.Shifts != shifts || shifts == 0 {
					t.Errorf("%d shifts, want %d", r.stats.Shifts, shifts)
				}
				ended(t, "beside it", <-beside, other, 140, window)
			})
		}
	}
}

// Shifting a sequence with shared pages does not change the other sequences.
func TestShiftShared(t *testing.T) {
	const context = 200
	s, _ := newTiny(t, tiny{cells: 1024, seqs: 3, context: context, rows: 32, shift: true, seed: 4})
	stem := text(1, 150)
	ended(t, "stem", run(t, s, sched.Job{Prompt: stem, Slot: 0}, 1), stem, 1, 0)
	longer := slices.Concat(stem, text(2, 5))
	r := run(t, s, sched.Job{Prompt: longer, Slot: 1}, 120)
	want, _ := shifted(longer, 120, context, 0, 0)
	if r.err != nil || !slices.Equal(r.tokens, want) || r.stats.Cached != 128 {
		t.Errorf("%d tokens reused, %v", r.stats.Cached, r.err)
	}
	again := slices.Concat(stem, text(3, 5))
	r = run(t, s, sched.Job{Prompt: again, Slot: 2}, 3)
	ended(t, "the stem again", r, again, 3, 0)
	if r.stats.Cached != 128 {
		t.Errorf("%d tokens of the stem reused, want 128", r.stats.Cached)
	}
}

// Rows that a shift has moved were computed after text that is gone. They are
// not reused for other prompts, neither in the same slot nor where it is
// restored. The start that the shift kept is reused.
func TestShiftedIsNotReused(t *testing.T) {
	const context, keep = 300, 130
	s, _ := newTiny(t, tiny{cells: 2048, seqs: 3, context: context, rows: 32, shift: true, seed: 4})
	prompt := text(1, 280)
	r := run(t, s, sched.Job{Prompt: prompt, Slot: 0, Keep: keep}, 40)
	if r.err != nil || r.stats.Shifts != 1 {
		t.Fatalf("%d shifts, %v", r.stats.Shifts, r.err)
	}
	drop := (context - keep) / 2
	now := slices.Concat(prompt, r.tokens)
	now = slices.Concat(now[:keep], now[keep+drop:])
	if len(now) < 192+1 {
		t.Fatalf("%d tokens are left, want more than three pages", len(now))
	}
	var file bytes.Buffer
	if n, err := s.Save(t.Context(), 0, &file); err != nil || n != 128 {
		t.Errorf("saved %d tokens, want the 128 of the start; %v", n, err)
	}
	s2, _ := newTiny(t, tiny{cells: 2048, seqs: 3, context: context, rows: 32, shift: true, seed: 5})
	if n, err := s2.Restore(t.Context(), 1, "", bytes.NewReader(file.Bytes())); err != nil || n != 128 {
		t.Fatalf("restored %d tokens, %v", n, err)
	}
	r = run(t, s2, sched.Job{Prompt: now, Slot: -1}, 2)
	if ended(t, "the shifted text, restored", r, now, 2, 0); r.stats.Cached != 128 {
		t.Errorf("%d tokens reused of the restored slot, want 128", r.stats.Cached)
	}
	r = run(t, s, sched.Job{Prompt: now, Slot: -1}, 2)
	ended(t, "the shifted text", r, now, 2, 0)
	if r.stats.Cached != 128 {
		t.Errorf("%d tokens reused, want the 128 of the start", r.stats.Cached)
	}
	r = run(t, s, sched.Job{Prompt: now, Slot: -1}, 2)
	if ended(t, "again", r, now, 2, 0); r.stats.Cached != 192 {
		t.Errorf("%d tokens reused of what was read afresh, want 192", r.stats.Cached)
	}
}

// freqs are the angles of rotary embedding at position 1.
func freqs(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(math.Pow(10000, -float64(i)/float64(n)))
	}
	return out
}

// A shifted key of any type equals the freshly computed key, except that it is
// encoded twice. By the triangle inequality its error is at most twice as
// large. In the second context the remaining text is several batches long, and
// the first batches are full pages.
func TestShiftKeys(t *testing.T) {
	for _, size := range []struct{ context, rows, cells int }{{160, 32, 256}, {640, 128, 640}} {
		for i, typ := range kv.Types() {
			t.Run(fmt.Sprintf("%s in %d", typ.Name, size.context), func(t *testing.T) {
				exact := []kv.Window{{}, {Newest: 20, Pinned: 3}, {Newest: 90, Pinned: 30}}[i%3]
				shiftKeys(t, tiny{k: typ, v: typ, cells: size.cells, seqs: 1, context: size.context, rows: size.rows, exact: exact, seed: 4})
			})
		}
	}
}

func shiftKeys(t *testing.T, c tiny) {
	t.Helper()
	c.shift, c.rotary = true, []layout.Rotary{
		{Parts: []layout.RotaryPart{{Freqs: freqs(32)}}},
		{Parts: []layout.RotaryPart{{First: 16, Freqs: freqs(8), Adjacent: true}, {First: 32, Freqs: freqs(16)}}},
	}
	const keep = 10
	s, f := newTiny(t, c)
	prompt := text(3, c.context-1)
	r := run(t, s, sched.Job{Prompt: prompt, Slot: 0, Keep: keep}, 3)
	if r.err != nil || r.stats.Shifts != 1 {
		t.Fatalf("%d shifts, %v", r.stats.Shifts, r.err)
	}
	drop := (c.context - keep) / 2
	tokens := slices.Concat(prompt, r.tokens[:1])
	tokens = slices.Concat(tokens[:keep], tokens[keep+drop:], r.tokens[1:2])
	var once, twice float64
	err := s.Do(t.Context(), func() {
		for i := range f.layout.Layers {
			y := &f.layout.Layers[i]
			for pos := keep; pos < len(tokens)-1; pos++ {
				a, b := f.errors(y, i, pos, tokens[pos], c.rotary[i])
				once, twice = once+a, twice+b
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	// In f32, angles and products are rounded twice.
	if !(twice <= 2*once+1e-5*float64(len(tokens))) {
		t.Errorf("shifted keys are %g wrong together, encoded once %g", twice, once)
	}
}

// errors returns the distance from the exact key of a key that was encoded
// once, and of the key in the cell.
func (f *fake) errors(y *layout.Layer, layer, pos int, tok llm.Token, r layout.Rotary) (once, twice float64) {
	at := kv.At{Pos: pos, RopeBase: y.RopeBase}
	part, page := layout.Packed, f.pages[pos/kv.PageCells]
	if y.K.Exact != nil && f.exact[pos/kv.PageCells] >= 0 {
		part, page = layout.Exact, f.exact[pos/kv.PageCells]
	}
	row, form := f.row(layer, kv.K, part, page*kv.PageCells+int32(pos%kv.PageCells)), y.K.Form(part)
	n := len(row) / y.KVHeads
	for h := range y.KVHeads {
		exact := key(r, tok, h, pos)
		fresh, got := make([]byte, n), make([]float32, 64)
		form.Encode(fresh, exact, at)
		form.Decode(got, fresh, at)
		once += distance(got, exact)
		form.Decode(got, row[h*n:(h+1)*n], at)
		twice += distance(got, exact)
	}
	return once, twice
}

func distance(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]-b[i]) * float64(a[i]-b[i])
	}
	return math.Sqrt(sum)
}
