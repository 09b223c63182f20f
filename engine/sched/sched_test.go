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

// ended fails the test if a job did not generate the right tokens.
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

// Many jobs of all lengths with common beginnings share few cells, and some of
// them are cancelled. Every answer is right.
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
								time.Sleep(3 * time.Millisecond) // longer than anything waits
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

// steady returns n steps in which all jobs were generating. The jobs were
// submitted together.
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

// With four streams, each gets a token in any four consecutive steps, whatever
// the batch size.
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

// While a long prompt is read, every answer has a row in every step, and no
// step is larger than a batch.
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
	<-running // both jobs are generating
	before := -1
	prompt := text(9, 2000)
	var during []sched.Step
	long, err := begin(ctx, s, sched.Job{
		Prompt: prompt, Slot: -1,
		Prefilled: func(done int, _ *sched.Stats) {
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
	const chunk = (rows - 2) / 16 * 16 // full tiles next to two answers
	if least := (2000 + chunk - 1) / chunk; chunks != least {
		t.Errorf("the prompt took %d steps, want %d", chunks, least)
	}
}

// Prompts get room even if the running answers fill a batch.
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

// Jobs that are submitted together all start in one step, or none of them
// starts.
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
		t.Fatal("an empty prompt among others gave no error")
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

// A job that is cancelled ends within a step, even in the queue, and its cells
// become available.
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
	// Cancelled in the middle of reading its prompt.
	ctx, cancel = context.WithCancel(t.Context())
	before := len(f.taken())
	reading, err := begin(ctx, s, sched.Job{Prompt: text(3, 2000), Slot: -1, Prefilled: func(done int, _ *sched.Stats) {
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

// A job that needs a busy slot does not keep others from the idle slots.
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

// Close ends running and waiting jobs, each once.
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

// Sixteen clients have different words planted in their prompts. No answer
// depends on another client's prompt.
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
