package sched_test

import (
	"fmt"
	"hash/fnv"
	"slices"
	"testing"

	"godwit/engine/llm"
	"godwit/engine/sched"
)

// shifted is what the fake model says in a context that drops its middle when
// it is full, worked out from the tokens alone.
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

// A full sequence keeps its start, drops half of the rest and goes on, and
// nobody else notices: with windows the dropped text is read again.
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

// A shift of a sequence whose pages are shared leaves the others' alone.
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
