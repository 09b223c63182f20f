package sched_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"godwit/engine/sched"
)

// The longest prefix that any slot holds is reused, in whole pages.
func TestReuse(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 8192, seqs: 4, context: 2048, rows: 64, seed: 5})
	a := text(1, 500)
	check := func(what string, j sched.Job, cached int) {
		t.Helper()
		j.Slot = max(j.Slot, -1)
		r := run(t, s, j, 3)
		ended(t, what, r, j.Prompt, 3, 0)
		if r.stats.Cached != cached {
			t.Errorf("%s: %d tokens reused, want %d", what, r.stats.Cached, cached)
		}
	}
	check("nothing there", sched.Job{Prompt: a, Slot: -1}, 0)
	check("the same again", sched.Job{Prompt: a, Slot: -1}, 448)
	check("longer", sched.Job{Prompt: slices.Concat(a, text(2, 100)), Slot: -1}, 448)
	check("a common beginning", sched.Job{Prompt: slices.Concat(a[:200], text(3, 100)), Slot: -1}, 192)
	check("the first of both", sched.Job{Prompt: a, Slot: -1}, 448)
	check("recomputed", sched.Job{Prompt: a, Slot: -1, Fresh: true}, 0)
	check("into another slot", sched.Job{Prompt: a[:300], Slot: 3}, 256)
	check("less than a page in common", sched.Job{Prompt: slices.Concat(a[:63], text(4, 63)), Slot: -1}, 0)
	check("a whole number of pages", sched.Job{Prompt: a[:128], Slot: -1}, 64)
}

// Layers with a window reuse a prefix while its pages are there, and read it
// again after they were given back.
func TestReuseWindow(t *testing.T) {
	const window = 100
	s, _ := newTiny(t, tiny{cells: 16384, seqs: 2, context: 8192, rows: 64, window: window, seed: 5})
	a := text(1, 400)
	r := run(t, s, sched.Job{Prompt: a, Slot: 0}, 2)
	ended(t, "first", r, a, 2, window)
	longer := slices.Concat(a, text(2, 64))
	r = run(t, s, sched.Job{Prompt: longer, Slot: 0}, 2)
	ended(t, "continues", r, longer, 2, window)
	if r.stats.Cached != 384 {
		t.Errorf("%d tokens reused, want 384", r.stats.Cached)
	}
	long := slices.Concat(a, text(3, 3000))
	ended(t, "long", run(t, s, sched.Job{Prompt: long, Slot: 0}, 2), long, 2, window)
	r = run(t, s, sched.Job{Prompt: longer, Slot: 0}, 2)
	ended(t, "back to the beginning", r, longer, 2, window)
	if r.stats.Cached != 0 {
		t.Errorf("%d tokens reused of a window that has moved on, want 0", r.stats.Cached)
	}
}

// When the cells run out, the newest job waits and the others finish. All
// answers are right.
func TestCellsRunOut(t *testing.T) {
	const n = 200
	s, f := newTiny(t, tiny{cells: 512, seqs: 4, context: 512, rows: 64, seed: 2})
	var order []int // order in which jobs end, written on the loop's goroutine
	jobs, all := make([]sched.Job, 4), make([]<-chan result, 4)
	for i := range jobs {
		jobs[i] = sched.Job{Prompt: text(uint64(i), 60), Slot: -1}
		all[i] = generates(&jobs[i], n, nil)
		done := jobs[i].Done
		jobs[i].Done = func(f sched.Finish, st sched.Stats, err error) {
			order = append(order, i)
			done(f, st, err)
		}
	}
	if err := s.Submit(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	for i, done := range all {
		ended(t, fmt.Sprintf("job %d", i), <-done, jobs[i].Prompt, n, 0)
	}
	if !slices.IsSorted(order) {
		t.Errorf("jobs ended in the order %v", order)
	}
	rows := 0
	for _, st := range f.taken() {
		rows += st.Prefill
	}
	// A job that is sent back restarts only with a page to spare. It is sent
	// back again only after the others have taken a page, which happens at most
	// 4·(260/64 - 1) times.
	if most := 4*60 + 13*260; rows > most {
		t.Errorf("%d rows were read, at most %d: a job was put back and forth", rows, most)
	}
}

// A sequence that uses all cells alone ends with Length, and one that could
// never fit is rejected at once.
func TestFull(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 128, seqs: 2, context: 512, rows: 64, seed: 2})
	prompt := text(1, 100)
	r := run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 400)
	if r.err != nil || r.finish != sched.Length || len(r.tokens) != 29 {
		t.Errorf("finish %d after %d tokens, %v; want the length after 29", r.finish, len(r.tokens), r.err)
	}
	for _, n := range []int{128, 300} {
		_, err := begin(t.Context(), s, sched.Job{Prompt: text(2, n), Slot: -1}, 1, nil)
		var long *sched.TooLong
		if !errors.As(err, &long) || long.Prompt != n || long.Context != 128 {
			t.Errorf("a prompt of %d tokens over 128 cells: %v", n, err)
		}
	}
	s, _ = newTiny(t, tiny{cells: 4096, seqs: 2, context: 100, rows: 64, seed: 2})
	r = run(t, s, sched.Job{Prompt: prompt[:90], Slot: -1}, 400)
	if r.err != nil || r.finish != sched.Length || len(r.tokens) != 11 {
		t.Errorf("finish %d after %d tokens, %v; want the length after 11", r.finish, len(r.tokens), r.err)
	}
	if _, err := begin(t.Context(), s, sched.Job{Prompt: prompt, Slot: -1}, 1, nil); !errors.Is(err, sched.ErrTooLong) {
		t.Errorf("a prompt as long as the context: %v", err)
	}
}
