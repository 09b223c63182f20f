package sched_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// Jobs that state the length of their answers never read anything twice and end
// in order, however few cells there are. Jobs that do not fit wait.
func TestAdmitted(t *testing.T) {
	const n, jobs = 200, 8
	for _, exact := range []bool{false, true} {
		c := tiny{cells: 1024, seqs: 4, context: 1024, rows: 64, seed: 2}
		if exact {
			c.k, c.v, c.exact = parse(t, "turbo3"), parse(t, "turbo3"), kv.Window{Newest: 64}
		}
		s, f := newTiny(t, c)
		var all [jobs]<-chan result
		var list [jobs]sched.Job
		for i := range list {
			list[i] = sched.Job{Prompt: text(uint64(i), 150), Slot: -1, Most: n}
			all[i] = generates(&list[i], n, nil)
		}
		if err := s.Submit(t.Context(), list[:]...); err != nil {
			t.Fatal(err)
		}
		for i, done := range all {
			r := <-done
			if r.err != nil || r.finish != sched.Stopped || len(r.tokens) != n {
				t.Errorf("exact %v, job %d: %v after %d tokens, %v", exact, i, r.finish, len(r.tokens), r.err)
			}
			if !exact {
				ended(t, fmt.Sprintf("job %d", i), r, list[i].Prompt, n, 0)
			}
		}
		rows, most := 0, 0
		for _, st := range f.taken() {
			rows += st.Prefill
			most = max(most, len(st.Slots))
		}
		if rows > jobs*150 {
			t.Errorf("exact %v: %d rows of prompts were read, they have %d", exact, rows, jobs*150)
		}
		if most != 2 { // 16 pages, and each job needs 6
			t.Errorf("exact %v: %d jobs in a step, want 2", exact, most)
		}
	}
}

// A job with a known length keeps what it was promised next to open jobs that
// take all they can get.
func TestPromised(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 512, seqs: 3, context: 512, rows: 64, seed: 2})
	var order []int
	jobs, all := make([]sched.Job, 3), make([]<-chan result, 3)
	for i := range jobs {
		jobs[i] = sched.Job{Prompt: text(uint64(i), 60), Slot: -1}
		n := 300
		if i == 2 { // the newest job
			jobs[i].Most, n = 100, 100
		}
		all[i] = generates(&jobs[i], n, nil)
		done := jobs[i].Done
		jobs[i].Done = func(f sched.Finish, st sched.Stats, err error) { order = append(order, i); done(f, st, err) }
	}
	if err := s.Submit(t.Context(), jobs...); err != nil {
		t.Fatal(err)
	}
	for i, n := range []int{300, 300, 100} {
		ended(t, fmt.Sprintf("job %d", i), <-all[i], jobs[i].Prompt, n, 0)
	}
	if !slices.Equal(order, []int{2, 0, 1}) {
		t.Errorf("jobs ended in the order %v", order)
	}
}

// Conversations that share a prompt are admitted together even if separate
// copies of it would not fit.
func TestAdmittedSharing(t *testing.T) {
	s, f := newTiny(t, tiny{cells: 1024, seqs: 4, context: 1024, rows: 64, seed: 2})
	stem := text(1, 640)
	var all []<-chan result
	var jobs []sched.Job
	read := make(chan struct{})
	for i := range 4 {
		j := sched.Job{Prompt: slices.Concat(stem, text(uint64(2+i), 20)), Slot: -1, Most: 40}
		all, jobs = append(all, generates(&j, 40, nil)), append(jobs, j)
	}
	once := false
	next := jobs[0].Next
	jobs[0].Next = func(l []float32) (tok llm.Token, more bool, err error) {
		if !once {
			once = true
			close(read)
		}
		time.Sleep(time.Millisecond)
		return next(l)
	}
	if err := s.Submit(t.Context(), jobs[0]); err != nil {
		t.Fatal(err)
	}
	<-read
	if err := s.Submit(t.Context(), jobs[1:]...); err != nil {
		t.Fatal(err)
	}
	for i, done := range all {
		ended(t, fmt.Sprintf("job %d", i), <-done, jobs[i].Prompt, 40, 0)
	}
	most := 0
	for _, st := range f.taken() {
		most = max(most, len(st.Slots))
	}
	if most < 3 {
		t.Errorf("at most %d of four jobs ran together", most)
	}
}

// The queue has a limit, and a job beyond it is rejected at once.
func TestQueueBound(t *testing.T) {
	s, _ := newTiny(t, tiny{cells: 512, seqs: 1, context: 512, rows: 64, seed: 2, queue: 2})
	hold := make(chan struct{})
	first, err := begin(t.Context(), s, sched.Job{Prompt: text(1, 10), Slot: -1, Apart: true}, 1, func() { <-hold })
	if err != nil {
		t.Fatal(err)
	}
	var waiting []<-chan result
	for i := range 2 {
		done, err := begin(t.Context(), s, sched.Job{Prompt: text(uint64(2+i), 10), Slot: -1}, 1, nil)
		if err != nil {
			t.Fatalf("job %d of 2 in the queue: %v", i, err)
		}
		waiting = append(waiting, done)
	}
	if _, err := begin(t.Context(), s, sched.Job{Prompt: text(9, 10), Slot: -1}, 1, nil); !errors.Is(err, sched.ErrBusy) {
		t.Errorf("a job beyond the queue: %v, want ErrBusy", err)
	}
	close(hold)
	for _, done := range append(waiting, first) {
		if r := <-done; r.err != nil {
			t.Error(r.err)
		}
	}
}
