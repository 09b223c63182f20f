package sched_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// ended fails the test unless a job gave the right tokens.
func ended(t testing.TB, what string, r result, prompt []llm.Token, n, window int) {
	t.Helper()
	if r.err != nil {
		t.Errorf("%s: %v", what, r.err)
		return
	}
	if w := want(prompt, n, window); !slices.Equal(r.tokens, w) {
		t.Errorf("%s: %v, want %v", what, r.tokens, w)
	}
}

// Many jobs with common beginnings, of all lengths, some of which are given
// up, over few cells: every answer is right.
func TestAnswers(t *testing.T) {
	for _, window := range []int{0, 70} {
		for _, cells := range []int{4096, 640} {
			t.Run(fmt.Sprintf("window %d, %d cells", window, cells), func(t *testing.T) {
				s, _ := newTiny(t, tiny{cells: cells, seqs: 5, context: 512, rows: 48, window: window, seed: 3})
				r := rand.New(rand.NewPCG(7, 7))
				stems := [][]llm.Token{text(1, 300), text(2, 200), text(3, 64), nil}
				var wait sync.WaitGroup
				for i := range 60 {
					stem := stems[r.IntN(len(stems))]
					prompt := slices.Concat(stem[:r.IntN(len(stem)+1)], text(uint64(100+i), 1+r.IntN(90)))
					n := 1 + r.IntN(30)
					ctx, cancel := context.WithCancel(t.Context())
					after := -1
					if r.IntN(4) == 0 {
						after = r.IntN(n)
					}
					wait.Go(func() {
						defer cancel()
						seen := 0
						done, err := begin(ctx, s, sched.Job{Prompt: prompt, Slot: -1, Apart: i%3 == 0}, n, func() {
							if i%9 == 0 {
								time.Sleep(3 * time.Millisecond) // later than anybody waits for
							}
							if seen == after {
								cancel()
							}
							seen++
						})
						if err != nil {
							t.Error(err)
							return
						}
						got := <-done
						if errors.Is(got.err, context.Canceled) && after >= 0 {
							return
						}
						ended(t, fmt.Sprintf("job %d", i), got, prompt, n, window)
					})
					if r.IntN(3) == 0 {
						time.Sleep(time.Millisecond)
					}
				}
				wait.Wait()
				slots, err := s.Slots(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, sl := range slots {
					if sl.Busy {
						t.Errorf("slot %d is busy after the last job", sl.Slot)
					}
				}
			})
		}
	}
}

// steady returns n steps in which all jobs, submitted together, were generating.
func steady(t *testing.T, s *sched.Sched, f *fake, jobs []sched.Job, n int) []sched.Step {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var started atomic.Int32
	var from atomic.Int64
	var all []<-chan result
	for i := range jobs {
		seen := false
		all = append(all, generates(&jobs[i], 2000, func() {
			now := int64(len(f.taken()))
			if !seen && int(started.Add(1)) == len(jobs) {
				from.Store(now)
			}
			if seen = true; from.Load() > 0 && now >= from.Load()+int64(n) {
				cancel()
			}
		}))
	}
	if err := s.Submit(ctx, jobs...); err != nil {
		t.Fatal(err)
	}
	for _, done := range all {
		<-done
	}
	return f.taken()[from.Load():][:n]
}

// With four streams each gets a token in any four steps, whatever the size of
// the batch.
func TestTurns(t *testing.T) {
	for _, rows := range []int{1, 2, 3, 4, 16} {
		s, f := newTiny(t, tiny{cells: 9000, seqs: 8, context: 2048, rows: rows, seed: 1})
		var jobs []sched.Job
		for i := range 4 {
			jobs = append(jobs, sched.Job{Prompt: text(uint64(i), 3), Slot: 2 * i})
		}
		steps := steady(t, s, f, jobs, 40)
		for i := 0; i+4 <= len(steps); i++ {
			seen := map[int]bool{}
			for _, st := range steps[i : i+4] {
				for _, slot := range st.Slots {
					seen[slot] = true
				}
			}
			if len(seen) != 4 {
				t.Fatalf("batch of %d: steps %d to %d served slots %v", rows, i, i+3, seen)
			}
		}
	}
}

// A long prompt beside running answers: every answer has a row in every step,
// and no step holds more than a batch.
func TestMixed(t *testing.T) {
	const rows = 64
	s, f := newTiny(t, tiny{cells: 8192, seqs: 4, context: 4096, rows: rows, seed: 1})
	running, queued := make(chan struct{}, 2), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	var streams []<-chan result
	for i := range 2 {
		var once sync.Once
		wait := slowly(queued)
		done, err := begin(ctx, s, sched.Job{Prompt: text(uint64(i), 5), Slot: -1}, 4000, func() {
			once.Do(func() { running <- struct{}{} })
			wait()
		})
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, done)
	}
	<-running
	<-running // both are generating
	before := -1
	prompt := text(9, 2000)
	var during []sched.Step
	long, err := begin(ctx, s, sched.Job{
		Prompt: prompt, Slot: -1,
		Prefilled: func(_, done, _ int) {
			if done == 0 {
				before = len(f.taken())
			}
		},
	}, 1, func() { during = f.taken()[before:] })
	if err != nil {
		t.Fatal(err)
	}
	close(queued)
	ended(t, "long prompt", <-long, prompt, 1, 0)
	cancel()
	for _, done := range streams {
		<-done
	}
	chunks := 0
	for _, st := range during {
		if st.Decode != 2 {
			t.Errorf("a step beside a long prompt has rows of %d answers, want 2", st.Decode)
		}
		if st.Decode+st.Prefill > rows {
			t.Errorf("a step has %d rows, at most %d", st.Decode+st.Prefill, rows)
		}
		if st.Prefill > 0 {
			chunks++
		}
	}
	const chunk = (rows - 2) / 16 * 16 // whole tiles beside two answers
	if least := (2000 + chunk - 1) / chunk; chunks != least {
		t.Errorf("the prompt took %d steps, want %d", chunks, least)
	}
}

// A batch that running answers fill still lets prompts in.
func TestPromptsGetRoom(t *testing.T) {
	for _, rows := range []int{1, 2, 4} {
		s, _ := newTiny(t, tiny{cells: 4096, seqs: 8, context: 1024, rows: rows, seed: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var streams []<-chan result
		for i := range 4 {
			done, err := begin(ctx, s, sched.Job{Prompt: text(uint64(i), 2), Slot: -1}, 1000, nil)
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, done)
		}
		prompt := text(9, 40)
		ended(t, fmt.Sprintf("batch of %d", rows), run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 2), prompt, 2, 0)
		cancel()
		for _, done := range streams {
			<-done
		}
	}
}

// Jobs that are submitted together begin in one step, or not at all.
func TestTogether(t *testing.T) {
	const n = 6
	s, f := newTiny(t, tiny{cells: 4096, seqs: n, context: 64, rows: 64, seed: 1})
	done := make(chan error, n)
	jobs := make([]sched.Job, n)
	for i := range jobs {
		left := 5
		jobs[i] = sched.Job{
			Prompt: text(uint64(i), 3), Slot: -1,
			Next: func([]float32) (llm.Token, bool, error) { left--; return 1, left > 0, nil },
			Done: func(_ sched.Finish, _ sched.Stats, err error) { done <- err },
		}
	}
	bad := append(slices.Clone(jobs), sched.Job{})
	if err := s.Submit(t.Context(), bad...); err == nil {
		t.Fatal("an empty prompt among others is no error")
	}
	if err := s.Submit(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	for range jobs {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for i, st := range f.taken() {
		if st.Prefill > 0 && st.Prefill != 3*n || st.Prefill == 0 && st.Decode != n {
			t.Errorf("step %d has %d rows of prompts and %d of answers", i, st.Prefill, st.Decode)
		}
	}
}

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

// Layers with a window reuse a prefix while it is there, and read it again
// when its pages were given back.
func TestReuseWindow(t *testing.T) {
	const window = 100
	s, _ := newTiny(t, tiny{cells: 16384, seqs: 2, context: 8192, rows: 64, window: window, seed: 5})
	a := text(1, 400)
	r := run(t, s, sched.Job{Prompt: a, Slot: 0}, 2)
	ended(t, "first", r, a, 2, window)
	longer := slices.Concat(a, text(2, 64))
	r = run(t, s, sched.Job{Prompt: longer, Slot: 0}, 2)
	ended(t, "goes on", r, longer, 2, window)
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

// When the cells run out the newest job waits and the others finish; all
// answers are right.
func TestCellsRunOut(t *testing.T) {
	const n = 200
	s, f := newTiny(t, tiny{cells: 512, seqs: 4, context: 512, rows: 64, seed: 2})
	var order []int // of the ends, which come from the loop's goroutine
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
	// A job goes back with a page to spare, so each time that it has to wait
	// again the others have taken a page: at most four times 260/64 - 1.
	if most := 4*60 + 13*260; rows > most {
		t.Errorf("%d rows were read, at most %d: a job was put back and forth", rows, most)
	}
}

// A sequence that has all cells to itself ends with its length, and one that
// could never fit is refused at once.
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

// A job that is given up ends within a step, in the queue too, and its cells
// can be taken.
func TestCancel(t *testing.T) {
	s, f := newTiny(t, tiny{cells: 2048, seqs: 1, context: 2048, rows: 32, seed: 2})
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	wait, at := slowly(left), -1
	running, err := begin(ctx, s, sched.Job{Prompt: text(1, 10), Slot: -1}, 2000, func() {
		wait()
		select {
		case <-left:
			if at < 0 {
				at = len(f.taken())
				cancel()
			}
		default:
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	waiting, stop := context.WithCancel(t.Context())
	queued, err := begin(waiting, s, sched.Job{Prompt: text(2, 10), Slot: -1}, 2000, nil)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if r := <-queued; !errors.Is(r.err, context.Canceled) || len(r.tokens) != 0 {
		t.Errorf("in the queue: %v after %d tokens", r.err, len(r.tokens))
	}
	close(left)
	r := <-running
	if !errors.Is(r.err, context.Canceled) {
		t.Errorf("running: %v", r.err)
	}
	if n := len(f.taken()); n > at+1 {
		t.Errorf("%d steps after the client was gone", n-at)
	}
	// A prompt in the middle of its reading.
	ctx, cancel = context.WithCancel(t.Context())
	before := len(f.taken())
	reading, err := begin(ctx, s, sched.Job{Prompt: text(3, 2000), Slot: -1, Prefilled: func(_, done, _ int) {
		if done >= 320 {
			cancel()
		}
	}}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := <-reading; !errors.Is(r.err, context.Canceled) {
		t.Errorf("reading: %v", r.err)
	}
	if n := len(f.taken()) - before; n > 11 {
		t.Errorf("%d chunks were read, want about 10", n)
	}
	prompt := text(4, 2000) // takes all cells
	ended(t, "afterwards", run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 5), prompt, 5, 0)
}

// A job that wants a busy slot does not keep others from the idle ones.
func TestWantedSlot(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 4096, seqs: 2, context: 2048, rows: 32, seed: 2})
	ctx, cancel := context.WithCancel(t.Context())
	first, err := begin(ctx, s, sched.Job{Prompt: text(1, 10), Slot: 1}, 2000, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := begin(t.Context(), s, sched.Job{Prompt: text(2, 10), Slot: 1}, 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompt := text(3, 10)
	r := run(t, s, sched.Job{Prompt: prompt, Slot: -1}, 3)
	ended(t, "passing", r, prompt, 3, 0)
	if r.stats.Slot != 0 {
		t.Errorf("it ran in slot %d, want 0", r.stats.Slot)
	}
	cancel()
	<-first
	if r := <-second; r.err != nil || r.stats.Slot != 1 {
		t.Errorf("the waiting one: slot %d, %v", r.stats.Slot, r.err)
	}
	if _, err := begin(t.Context(), s, sched.Job{Prompt: prompt, Slot: 2}, 1, nil); !errors.Is(err, sched.ErrSlot) {
		t.Errorf("a slot that is not there: %v", err)
	}
}

// A job that takes long over its tokens beside the loop holds up nobody: its
// first token waits for all that another generates. It is cancelled, and closed,
// when its call of Next has returned.
func TestApart(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 512, seqs: 3, context: 256, rows: 16})
	const n = 50
	slow, quick := text(1, 20), text(2, 30)
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	wait := func() {
		if first {
			first = false
			close(begun)
			<-release
		}
	}
	done, err := begin(t.Context(), s, sched.Job{Prompt: slow, Slot: -1, Apart: true}, 10, wait)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	ended(t, "quick", run(t, s, sched.Job{Prompt: quick, Slot: -1}, n), quick, n, 0)
	if slots, err := s.Slots(t.Context()); err != nil || !slots[0].Busy && !slots[1].Busy {
		t.Errorf("%+v, %v", slots, err)
	}
	close(release)
	ended(t, "slow", <-done, slow, 10, 0)

	for _, what := range []string{"cancelled", "closed"} {
		ctx, cancel := context.WithCancel(t.Context())
		begun, release, first = make(chan struct{}), make(chan struct{}), true
		done, err := begin(ctx, s, sched.Job{Prompt: slow, Slot: -1, Apart: true}, 10, wait)
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		if what == "closed" {
			go s.Close()
			for err = nil; !errors.Is(err, sched.ErrClosed); {
				_, err = s.Slots(t.Context())
			}
		} else {
			cancel()
		}
		select {
		case r := <-done:
			t.Errorf("%s: %v before Next has returned", what, r.err)
		case <-time.After(20 * time.Millisecond):
		}
		close(release)
		if r := <-done; !errors.Is(r.err, context.Canceled) && !errors.Is(r.err, sched.ErrClosed) {
			t.Errorf("%s: %v", what, r.err)
		}
		cancel()
	}
}

// A job in the queue whose context ends is told so while the only slot's job
// takes its time over a token.
func TestApartQueue(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 256, seqs: 1, context: 256, rows: 16})
	begun, release := make(chan struct{}), make(chan struct{})
	first := true
	slow, err := begin(t.Context(), s, sched.Job{Prompt: text(1, 20), Slot: -1, Apart: true}, 2, func() {
		if first {
			first = false
			close(begun)
			<-release
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	queued, err := begin(ctx, s, sched.Job{Prompt: text(2, 20), Slot: -1}, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := <-queued; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the one in the queue: %v", r.err)
	}
	close(release)
	ended(t, "slow", <-slow, text(1, 20), 2, 0)
}

// When the cells run out, a newer job makes room for an older one, even if that
// has to wait for the token that the newer one is choosing.
func TestApartYields(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 4 * kv.PageCells, seqs: 2, context: 4 * kv.PageCells, rows: 64, seed: 4})
	const last = 3*kv.PageCells - 20 + 1 // the older one's token that three pages have no cell for
	older, newer := sched.Job{Prompt: text(1, 20), Slot: -1}, sched.Job{Prompt: text(2, 20), Slot: -1, Apart: true}
	full, release := make(chan struct{}), make(chan struct{})
	n := 0
	first := generates(&older, last+20, func() {
		if n++; n == last {
			close(full)
		}
	})
	second := generates(&newer, 60, func() { <-release })
	if err := s.Submit(t.Context(), older, newer); err != nil {
		t.Fatal(err)
	}
	<-full
	for range 5 { // the loop looks for a cell meanwhile
		if slots, err := s.Slots(t.Context()); err != nil || !slots[0].Busy || !slots[1].Busy {
			t.Errorf("%+v, %v", slots, err)
		}
	}
	close(release)
	r := <-second
	if len(first) == 0 {
		t.Error("the newer one ends first")
	}
	ended(t, "newer", r, newer.Prompt, 60, 0)
	ended(t, "older", <-first, older.Prompt, last+20, 0)
}

// Close ends what runs and what waits, each once.
func TestClose(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 2048, seqs: 1, context: 2048, rows: 32, seed: 2})
	var all []<-chan result
	wait := slowly(nil)
	for i := range 3 {
		done, err := begin(t.Context(), s, sched.Job{Prompt: text(uint64(i), 10), Slot: -1}, 2000, wait)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, done)
	}
	s.Close()
	for _, done := range all {
		if r := <-done; !errors.Is(r.err, sched.ErrClosed) {
			t.Errorf("%v, want ErrClosed", r.err)
		}
	}
	if _, err := begin(t.Context(), s, sched.Job{Prompt: text(1, 1), Slot: -1}, 1, nil); !errors.Is(err, sched.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// Sixteen clients, each with a word of its own planted in its prompts: nobody's
// answer depends on anybody else.
func TestPlantedWords(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 2048, seqs: 6, context: 600, rows: 64, window: 90, seed: 11})
	common := text(1, 200)
	var wait sync.WaitGroup
	for client := range 16 {
		wait.Go(func() {
			history := slices.Concat(common, text(uint64(1000+client), 20))
			for turn := range 5 {
				history = append(history, text(uint64(client*100+turn), 10)...)
				r := run(t, s, sched.Job{Prompt: history, Slot: -1}, 15)
				ended(t, fmt.Sprintf("client %d, turn %d", client, turn), r, history, 15, 90)
				history = append(history, r.tokens...)
			}
		})
	}
	wait.Wait()
	free, err := s.Usage(t.Context())
	if err != nil || free.Queued != 0 {
		t.Errorf("%d jobs are queued, %v", free.Queued, err)
	}
	if free.Free > 2048 || free.Free%kv.PageCells != 0 {
		t.Errorf("%d cells are free of 2048", free.Free)
	}
}
