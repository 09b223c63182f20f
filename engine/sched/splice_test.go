package sched_test

import (
	"fmt"
	"slices"
	"testing"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/sched"
)

// rotary is the RoPE of the fake model's two layers.
func rotary() []layout.Rotary {
	return []layout.Rotary{
		{Parts: []layout.RotaryPart{{Freqs: freqs(32)}}},
		{Parts: []layout.RotaryPart{{First: 16, Freqs: freqs(8), Adjacent: true}, {First: 32, Freqs: freqs(16)}}},
	}
}

// Text after an edit is copied from the slot that has read it. Each copied key equals the one
// that is computed afresh, except that it is encoded twice.
func TestSplice(t *testing.T) {
	begin, body, tail := text(1, 200), text(2, 700), text(3, 100)
	for i, typ := range kv.Types() {
		if testing.Short() && i%6 > 0 { // one scheduler runs them all
			continue
		}
		for _, edit := range []int{0, 13, 90}[i%3 : i%3+1] { // tokens in place of 40
			t.Run(fmt.Sprintf("%s %d", typ.Name, edit), func(t *testing.T) {
				exact := []kv.Window{{}, {Newest: 20, Pinned: 3}, {Newest: 90, Pinned: 30}}[i%3]
				c := tiny{k: typ, v: typ, cells: 4096, seqs: 3, context: 2048, rows: 128, exact: exact, seed: 4, splice: 64, rotary: rotary()}
				s, f := newTiny(t, c)
				first := slices.Concat(begin, text(4, 40), body, text(5, 30))
				if r := run(t, s, sched.Job{Prompt: first, Slot: -1}, 3); r.err != nil || r.stats.Spliced != 0 {
					t.Fatal(r.stats.Spliced, r.err)
				}
				prompt := slices.Concat(begin, text(6, edit), body, tail)
				r := run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 3)
				if r.err != nil {
					t.Fatal(r.err)
				}
				selfCalibrated := slices.ContainsFunc(f.layout.Groups, func(g layout.Group) bool { return g.SelfCalibrated })
				if copied := r.stats.Spliced; selfCalibrated != (copied == 0) || copied != 0 && (copied < 690 || r.stats.Cached < copied+64) {
					t.Fatalf("%d tokens copied of %d cached", copied, r.stats.Cached)
				}
				var once, twice float64
				err := s.Do(t.Context(), func() {
					for k := range f.layout.Layers {
						for pos := range prompt {
							a, b := f.errors(&f.layout.Layers[k], k, pos, prompt[pos], c.rotary[k])
							once, twice = once+a, twice+b
						}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if !(twice <= 2*once+1e-5*float64(len(prompt))) {
					t.Errorf("copied keys are %g wrong together, encoded once %g", twice, once)
				}
				// What was copied is neither reused as if it had been read, nor saved.
				again := slices.Concat(prompt[:len(prompt)-50], text(7, 50))
				r = run(t, s, sched.Job{Prompt: again, Slot: -1}, 3)
				if r.err != nil || !selfCalibrated && r.stats.Spliced < 600 {
					t.Errorf("another end: %d copied, %v", r.stats.Spliced, r.err)
				}
			})
		}
	}
}

// A slot whose text was copied from another position saves and stores only what it has read.
func TestSpliceIsNotKept(t *testing.T) {
	kept := memoryStore(t, 1<<30)
	c := tiny{cells: 4096, seqs: 3, context: 2048, rows: 128, seed: 4, splice: 64, kept: kept}
	s, _ := newTiny(t, c)
	begin, body := text(1, 200), text(2, 400)
	run(t, s, sched.Job{Prompt: slices.Concat(begin, text(4, 40), body), Slot: 0}, 3)
	prompt := slices.Concat(begin, text(5, 77), body, text(6, 20))
	r := run(t, s, sched.Job{Prompt: prompt, Slot: 1}, 3)
	if r.err != nil || r.stats.Spliced < 390 || !slices.Equal(r.tokens, want(prompt, 3, 0)) {
		t.Fatal(r.tokens, r.stats.Spliced, r.err)
	}
	s.Close()
	c.splice = 0
	s, _ = newTiny(t, c)
	r = run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 3)
	if r.err != nil || r.stats.Cached != 256 || !slices.Equal(r.tokens, want(prompt, 3, 0)) {
		t.Errorf("%d tokens of the copied text were stored, want the 256 before the copy; %v", r.stats.Cached, r.err)
	}
}
