package sched

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// Step describes one run of the device, for metrics and tests.
type Step struct {
	Decode  int // rows of generating sequences
	Prefill int // rows of prompts
	Slots   []int
	Took    time.Duration
}

// step runs one batch. It reports false if there was nothing to run.
func (s *Sched) step() bool {
	spliced := s.spliceAll()
	s.plan()
	decode, prefill := s.build()
	b := &s.batch
	if len(b.Tokens) == 0 {
		return spliced
	}
	s.cache.Fill(b)
	s.pictures(b)
	b.Logits = s.logits
	start := time.Now()
	stray, err := numbers(s.prog.Run(context.Background(), b))
	took := time.Since(start)
	s.pace.observe(decode, b.Spans, took)
	if s.o.Observe != nil {
		s.o.Observe(Step{Decode: decode, Prefill: prefill, Slots: s.stepped, Took: took})
	}
	for k, sp := range b.Spans {
		sl := &s.slots[sp.Seq]
		if k > 0 && b.Spans[k-1].Seq == sp.Seq { // draft rows count after they are verified
			continue
		}
		if sl.drafted > 0 {
			sp.Rows = 1
		}
		if err != nil || stray != nil && strays(stray.Rows, sp) && sl.task != nil && !sl.task.Strays {
			s.disown(int(sp.Seq))
			s.finish(int(sp.Seq), Failed, cmp.Or[error](err, stray))
			continue
		}
		if stray != nil && sl.drafted > 0 {
			sl.drafted = sound(stray.Rows, sp.First+1, sl.drafted)
		}
		sl.tokens = append(sl.tokens, b.Tokens[sp.First:sp.First+sp.Rows]...)
		sl.chain.dirty = sl.chain.dirty || len(sl.tokens)/kv.PageCells != (len(sl.tokens)-sp.Rows)/kv.PageCells
		s.checkpoint(int(sp.Seq), sp.Rows)
	}
	if err == nil {
		before := s.choices
		s.deliver()
		if s.choices > before {
			s.linger(before, max(time.Since(start)/4, time.Millisecond))
		}
	}
	return true
}

// numbers separates an error about rows that are not finite from other errors.
func numbers(err error) (*backend.NotNumbers, error) {
	if err == nil { // this path allocates nothing
		return nil, nil
	}
	var stray *backend.NotNumbers
	if errors.As(err, &stray) && !device(err) {
		err = nil
	}
	return stray, err
}

// device reports whether an error that contains a NotNumbers also contains
// another error.
func device(err error) bool {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, e := range list.Unwrap() {
		var stray *backend.NotNumbers
		if !errors.As(e, &stray) {
			return true
		}
	}
	return false
}

// strays reports whether any of the rows is in a span.
func strays(rows []int, sp llm.Span) bool {
	return slices.ContainsFunc(rows, func(r int) bool { return r >= sp.First && r < sp.First+sp.Rows })
}

// checkpoint keeps the recurrent state at a border or stop. In models without
// recurrent state it makes the end of a chunk of at least a page a point, since
// later prompts may diverge there.
func (s *Sched) checkpoint(i, rows int) {
	sl := &s.slots[i]
	var err error
	switch {
	case sl.task == nil:
	case s.o.StateModel:
		if len(sl.tokens) == (sl.task.stats.Prompt-1)/kv.PageCells*kv.PageCells || slices.Contains(sl.task.stops, len(sl.tokens)) {
			err = s.cache.Checkpoint(sl.seq)
		}
	case rows >= kv.PageCells:
		err = s.cache.Point(sl.seq, len(sl.tokens), false)
	}
	if err != nil {
		s.finish(i, Failed, err)
		return
	}
	s.stop(i)
}

// deliver passes the logits to the jobs.
func (s *Sched) deliver() {
	for k, u := range s.rows {
		t := s.slots[u.slot].task
		if t == nil || k > 0 && s.rows[k-1].last && s.rows[k-1].slot == u.slot { // the row of a draft token
			continue
		}
		logits := s.logits[k*s.o.Vocab : (k+1)*s.o.Vocab]
		if t.Want != nil && t.Want(u.pos) && t.Row != nil && u.pos < t.stats.Prompt {
			if err := t.Row(u.pos, logits); err != nil {
				s.finish(u.slot, Failed, err)
				continue
			}
		}
		if u.last && t.Next != nil {
			s.next(u.slot, s.logits[k*s.o.Vocab:(k+1+s.slots[u.slot].drafted)*s.o.Vocab])
		}
	}
	for i := range s.slots {
		t := s.slots[i].task
		if t == nil {
			continue
		}
		if t.Prefilled != nil && slices.Contains(s.stepped, i) && t.stats.Generated == 0 && !t.chooses {
			t.Prefilled(len(s.slots[i].tokens), &t.stats)
		}
		if t.Next == nil && s.slots[i].remaining() == 0 {
			s.finish(i, Stopped, nil)
		}
	}
}

// next lets a job choose its next token. logits has a row for it, and one for each
// drafted token.
func (s *Sched) next(i int, logits []float32) {
	t := s.slots[i].task
	if t.first.IsZero() {
		t.first = time.Now()
		t.stats.Prefill = t.first.Sub(t.started)
	}
	if t.Apart {
		s.chooseApart(i, logits)
		return
	}
	for r := 0; ; r++ {
		p := t.pick(logits[r*s.o.Vocab : (r+1)*s.o.Vocab])
		if !s.verified(i, r, p) {
			return
		}
	}
}

// pick is what a job has chosen.
type pick struct {
	token llm.Token
	more  bool
	err   error
}

func (t *task) pick(logits []float32) (p pick) {
	p.token, p.more, p.err = t.Next(logits)
	return p
}

// chooseApart lets a job choose its next tokens outside the loop. Until it has,
// it keeps its slot and has no row in any batch.
func (s *Sched) chooseApart(i int, logits []float32) {
	t := s.slots[i].task
	t.logits, t.picks = append(t.logits[:0], logits...), t.picks[:0]
	t.chooses = true
	s.choices++
	s.apart.Go(func() {
		for r, n := 0, len(t.logits)/s.o.Vocab; r < n; r++ {
			p := t.pick(t.logits[r*s.o.Vocab : (r+1)*s.o.Vocab])
			t.picks = append(t.picks, p)
			if r == n-1 || !p.more || p.err != nil || p.token != t.draft[r] {
				break
			}
		}
		select {
		case s.ops <- func() {
			t.chooses = false
			s.choices--
			for r := 0; s.verified(i, r, t.picks[r]); r++ {
			}
		}:
		case <-s.quit:
		}
	})
}

// linger waits briefly until few choices outside the loop are left. A job that is slightly late can
// then join the next step, and a very late one delays no other job.
func (s *Sched) linger(some int, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for s.choices > some {
		select {
		case f := <-s.ops:
			f()
		case <-s.quit:
			return
		case <-timer.C:
			return
		}
	}
}

// chosen continues with the token that a job has chosen.
func (s *Sched) chosen(i int, tok llm.Token, more bool, err error) {
	t := s.slots[i].task
	if err == nil {
		t.stats.Generated++
	}
	switch {
	case err != nil:
		s.finish(i, Failed, err)
	case !more:
		s.finish(i, Stopped, nil)
	case len(t.tokens) >= s.o.Context:
		s.full(i, tok)
	default:
		t.tokens = append(t.tokens, tok)
	}
}

// full ends the job of a sequence that has reached the context, or makes room
// for its next token.
func (s *Sched) full(i int, next llm.Token) {
	if !s.o.Shift || len(s.slots[i].task.Tiles) > 0 { // rows of pictures have their own coordinates
		s.finish(i, Length, nil)
		return
	}
	if err := s.shift(i); err != nil {
		s.forget(i)
		s.finish(i, Failed, err)
		return
	}
	t := s.slots[i].task
	t.tokens = append(t.tokens, next)
}
