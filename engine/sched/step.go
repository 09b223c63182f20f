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

// step runs one batch. It reports false if there was nothing to run.
func (s *Sched) step() bool {
	b := &s.batch
	b.Tokens, b.Pos, b.Spans, b.Outputs, b.Top = b.Tokens[:0], b.Pos[:0], b.Spans[:0], b.Outputs[:0], b.Top[:0]
	s.rows, s.stepped = s.rows[:0], s.stepped[:0]
	decode := s.addDecode()
	prefill := s.addPrefill()
	s.unplaced()
	if len(b.Tokens) == 0 {
		return false
	}
	s.cache.Fill(b)
	b.Logits = s.logits
	start := time.Now()
	odd, err := numbers(s.prog.Run(context.Background(), b))
	if s.o.Observe != nil {
		s.o.Observe(Step{Decode: decode, Prefill: prefill, Slots: s.stepped, Took: time.Since(start)})
	}
	for _, sp := range b.Spans {
		sl := &s.slots[sp.Seq]
		if err != nil || odd != nil && strays(odd.Rows, sp) && sl.task != nil && !sl.task.Strays {
			s.disown(int(sp.Seq))
			s.finish(int(sp.Seq), Failed, cmp.Or[error](err, odd))
			continue
		}
		sl.tokens = append(sl.tokens, b.Tokens[sp.First:sp.First+sp.Rows]...)
		sl.chain.dirty = sl.chain.dirty || len(sl.tokens)/kv.PageCells != (len(sl.tokens)-sp.Rows)/kv.PageCells
		s.checkpoint(int(sp.Seq), sp.Rows)
	}
	if err == nil {
		late := s.choices
		s.deliver()
		if s.choices > late {
			s.linger(late, max(time.Since(start)/4, time.Millisecond))
		}
	}
	return true
}

// numbers separates the rows that are not finite from other errors.
func numbers(err error) (*backend.NotNumbers, error) {
	if err == nil { // allocates nothing, unlike the rest
		return nil, nil
	}
	var odd *backend.NotNumbers
	if errors.As(err, &odd) && !device(err) {
		err = nil
	}
	return odd, err
}

// device reports whether an error that holds a NotNumbers holds another one too.
func device(err error) bool {
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return false
	}
	for _, e := range list.Unwrap() {
		var odd *backend.NotNumbers
		if !errors.As(e, &odd) {
			return true
		}
	}
	return false
}

// strays reports whether a span has one of the rows.
func strays(rows []int, sp llm.Span) bool {
	return slices.ContainsFunc(rows, func(r int) bool { return r >= sp.First && r < sp.First+sp.Rows })
}

// remaining is the number of tokens of a slot's job that are not in its cells.
func (sl *slot) remaining() int { return len(sl.task.tokens) - len(sl.tokens) }

// reading reports whether the slot's job still reads its prompt.
func (sl *slot) reading() bool { return len(sl.tokens) < sl.task.read && sl.remaining() > 0 }

// addDecode adds a row for every generating sequence. Where the batch is too
// small for all, they take turns, and prompts get their share.
func (s *Sched) addDecode() (rows int) {
	room := s.o.Rows
	prompts := s.prompts()
	if prompts && (room > 1 || s.starved) {
		room--
	}
	s.starved = false
	left := -1
	for k := range s.slots {
		i := (s.turn + k) % len(s.slots)
		if !s.decodes(i) {
			continue
		}
		if rows == room || s.add(i, 1) == 0 {
			if left < 0 && s.slots[i].task != nil {
				left = i
			}
			continue
		}
		rows++
	}
	if left >= 0 {
		s.turn = left // who was left out comes first in the next step
	}
	s.starved = prompts && rows == s.o.Rows
	return rows
}

// decodes reports whether a slot's job waits for the row of its last token.
func (s *Sched) decodes(i int) bool {
	sl := &s.slots[i]
	return sl.task != nil && sl.remaining() == 1 && (!sl.reading() || sl.task.OneByOne)
}

// prompts reports whether any slot's job reads its prompt.
func (s *Sched) prompts() bool {
	for i := range s.slots {
		if t := s.slots[i].task; t != nil && s.slots[i].remaining() > 0 && !s.decodes(i) {
			return true
		}
	}
	return false
}

// addPrefill divides the rest of the batch among the prompts being read, so
// that a short prompt is not kept waiting by a long one.
func (s *Sched) addPrefill() (rows int) {
	waiting := 0
	for i := range s.slots {
		if s.prefills(i) {
			waiting++
		}
	}
	for i := range s.slots {
		if waiting == 0 {
			break
		}
		if !s.prefills(i) {
			continue
		}
		room := s.o.Rows - len(s.batch.Tokens)
		n := min(s.slots[i].remaining(), max(room/waiting, min(room, 1)))
		waiting--
		if s.slots[i].task.OneByOne {
			n = min(n, 1)
		}
		if n = s.border(i, n); n > 0 {
			rows += s.add(i, n)
		}
	}
	return rows
}

func (s *Sched) prefills(i int) bool {
	t := s.slots[i].task
	return t != nil && s.slots[i].remaining() > 0 && !s.decodes(i) && !s.inBatch(i)
}

func (s *Sched) inBatch(i int) bool {
	for _, sp := range s.batch.Spans {
		if int(sp.Seq) == i {
			return true
		}
	}
	return false
}

// border shortens a chunk of a recurrent model so that it ends where the
// state will be kept: at the last page border within the prompt.
func (s *Sched) border(i, n int) int {
	if !s.o.StateModel {
		return n
	}
	sl := &s.slots[i]
	at := (sl.task.stats.Prompt - 1) / kv.PageCells * kv.PageCells
	if len(sl.tokens) < at {
		n = min(n, at-len(sl.tokens))
	}
	return n
}

// checkpoint keeps the recurrent state at the border, and makes the end of a
// chunk a position that later prompts can part at.
func (s *Sched) checkpoint(i, rows int) {
	sl := &s.slots[i]
	var err error
	switch {
	case sl.task == nil:
	case s.o.StateModel:
		if len(sl.tokens) == (sl.task.stats.Prompt-1)/kv.PageCells*kv.PageCells {
			err = s.cache.Checkpoint(sl.seq)
		}
	case rows >= kv.PageCells:
		err = s.cache.Point(sl.seq, len(sl.tokens), false)
	}
	if err != nil {
		s.finish(i, Failed, err)
	}
}

// add puts n rows of a slot into the batch and returns how many fit.
func (s *Sched) add(i, n int) int {
	sl := &s.slots[i]
	t := sl.task
	have := len(sl.tokens)
	n = s.fitOutputs(t, have, n)
	ok, err := false, error(nil)
	if n > 0 {
		ok, err = s.extend(i, n)
	}
	switch {
	case errors.Is(err, kv.ErrFull) && t.stats.Generated > 0:
		s.finish(i, Length, nil) // it has all cells, and they are full
	case err != nil:
		s.finish(i, Failed, err)
	}
	if !ok {
		return 0
	}
	b := &s.batch
	first := len(b.Tokens)
	for r := range n {
		pos := have + r
		last := pos == len(t.tokens)-1
		if want := t.Want != nil && t.Want(pos); want || last && t.Next != nil {
			b.Outputs = append(b.Outputs, int32(first+r))
			top := t.Top
			if want {
				top = 0
			}
			b.Top = append(b.Top, top)
			s.rows = append(s.rows, rowUse{i, pos, last})
		}
		b.Tokens = append(b.Tokens, t.tokens[pos])
		b.Pos = append(b.Pos, int32(pos))
	}
	b.Spans = append(b.Spans, llm.Span{Seq: sl.seq, First: first, Rows: n, Len: have + n, State: s.cache.State(sl.seq)})
	s.stepped = append(s.stepped, i)
	return n
}

// fitOutputs shortens a chunk to the output rows that are left, and to the
// rows of the batch.
func (s *Sched) fitOutputs(t *task, have, n int) int {
	n = min(n, s.o.Rows-len(s.batch.Tokens))
	left := s.o.Outputs - len(s.batch.Outputs)
	for r := range n {
		if t.Want != nil && t.Want(have+r) || have+r == len(t.tokens)-1 {
			if left == 0 {
				return r
			}
			left--
		}
	}
	return n
}

// unplaced removes the rows of jobs that were sent back to the queue after
// they had been added.
func (s *Sched) unplaced() {
	b := &s.batch
	for k := 0; k < len(b.Spans); k++ {
		sp := b.Spans[k]
		if s.slots[sp.Seq].task != nil && s.cache.Len(sp.Seq) == sp.Len {
			continue
		}
		b.Tokens = append(b.Tokens[:sp.First], b.Tokens[sp.First+sp.Rows:]...)
		b.Pos = append(b.Pos[:sp.First], b.Pos[sp.First+sp.Rows:]...)
		b.Spans = append(b.Spans[:k], b.Spans[k+1:]...)
		for j := k; j < len(b.Spans); j++ {
			b.Spans[j].First -= sp.Rows
		}
		outs, tops, rows := b.Outputs[:0], b.Top[:0], s.rows[:0]
		for j, o := range b.Outputs {
			switch {
			case int(o) < sp.First:
			case int(o) < sp.First+sp.Rows:
				continue
			default:
				o -= int32(sp.Rows)
			}
			outs, tops, rows = append(outs, o), append(tops, b.Top[j]), append(rows, s.rows[j])
		}
		b.Outputs, b.Top, s.rows = outs, tops, rows
		k--
	}
}

// deliver hands the logits to the jobs.
func (s *Sched) deliver() {
	for k, u := range s.rows {
		t := s.slots[u.slot].task
		if t == nil {
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
			s.next(u.slot, logits)
		}
	}
	for i := range s.slots {
		t := s.slots[i].task
		if t == nil {
			continue
		}
		if t.Prefilled != nil && s.inBatch(i) && t.stats.Generated == 0 && !t.chooses {
			t.Prefilled(i, len(s.slots[i].tokens), t.stats.Prompt)
		}
		if t.Next == nil && s.slots[i].remaining() == 0 {
			s.finish(i, Stopped, nil)
		}
	}
}

// next lets a job choose its next token.
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
	tok, more, err := t.Next(logits)
	s.chosen(i, tok, more, err)
}

// chooseApart lets a job choose its next token beside the loop. Until then it
// keeps its slot and has no row in any batch.
func (s *Sched) chooseApart(i int, logits []float32) {
	t := s.slots[i].task
	t.logits = append(t.logits[:0], logits...)
	t.chooses = true
	s.choices++
	s.apart.Go(func() {
		tok, more, err := t.Next(t.logits)
		select {
		case s.ops <- func() {
			t.chooses = false
			s.choices--
			s.chosen(i, tok, more, err)
		}:
		case <-s.quit:
		}
	})
}

// linger waits until choices beside the loop are down to some, but not long: a
// job that is a little late takes part in the next step, and one that is very
// late holds up nobody.
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

// chosen goes on with the token that a job has chosen.
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
	if !s.o.Shift {
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
