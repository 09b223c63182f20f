package sched

import (
	"errors"
	"fmt"

	"godwit/engine/kv"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
)

// chunkRows divides the lengths of prompt chunks, so that kernels get full
// tiles.
const chunkRows = 16

// chunk is the next rows of a slot's job, whose cells are reserved.
type chunk struct {
	slot   int
	task   *task
	rows   int
	prompt bool
}

// room is the remaining capacity of a step.
type room struct {
	rows, outputs int
	bounded       bool    // the batch is bounded by time
	time          float64 // remaining seconds for prompt rows
	reads         bool    // a prompt has rows in the step
}

// remaining returns the number of tokens of a slot's job that have no cells
// yet.
func (sl *slot) remaining() int { return len(sl.task.tokens) - len(sl.tokens) }

// reading reports whether the slot's job still reads its prompt.
func (sl *slot) reading() bool { return len(sl.tokens) < sl.task.read && sl.remaining() > 0 }

// decodes reports whether a slot's job needs only the row of its last token.
func (s *Sched) decodes(i int) bool {
	sl := &s.slots[i]
	return sl.task != nil && sl.remaining() == 1 && (!sl.reading() || sl.task.OneByOne)
}

// prefills reports whether a slot's job reads its prompt in chunks.
func (s *Sched) prefills(i int) bool {
	return s.slots[i].task != nil && s.slots[i].remaining() > 0 && !s.decodes(i)
}

// prompts returns the number of jobs that are reading their prompts.
func (s *Sched) prompts() (n int) {
	for i := range s.slots {
		if s.prefills(i) {
			n++
		}
	}
	return n
}

// plan divides a step among the jobs and reserves the cells of their rows. When the cells
// run out, jobs return to the queue, even those that already have a chunk.
func (s *Sched) plan() {
	s.chunks = s.chunks[:0]
	s.room = room{rows: s.o.Rows, outputs: s.o.Outputs}
	s.planDecode()
	s.planPrefill()
}

// planDecode gives a row to every generating sequence. If the batch is too small for all, they
// alternate, and prompts still get their share.
func (s *Sched) planDecode() {
	rows, most := 0, s.o.Rows
	prompts := s.prompts() > 0
	if prompts && (most > 1 || s.starved) {
		most--
	}
	s.starved = false
	drafts := 0
	if !prompts {
		drafts = s.drafts()
	}
	s.propose(drafts)
	left := -1
	for k := range s.slots {
		i := (s.decoder + k) % len(s.slots)
		if !s.decodes(i) {
			continue
		}
		if rows == most || s.reserve(i, 1+len(s.slots[i].task.draft), false) == 0 {
			if left < 0 && s.slots[i].task != nil {
				left = i
			}
			continue
		}
		rows++
	}
	if left >= 0 {
		s.decoder = left // the one left out comes first in the next step
	}
	s.starved = prompts && rows == s.o.Rows
}

// planPrefill divides the rest of the batch among the prompts being read, so
// that a short prompt does not wait for a long one. While other jobs generate,
// it divides the time for rows instead of their number.
func (s *Sched) planPrefill() {
	s.bound()
	waiting, next := s.prompts(), -1
	for k := range s.slots {
		i := (s.reader + k) % len(s.slots)
		if waiting == 0 {
			break
		}
		if !s.prefills(i) {
			continue
		}
		n := s.share(i, waiting)
		waiting--
		if n > 0 {
			n = s.reserve(i, n, true)
		}
		if n == 0 && next < 0 && s.slots[i].task != nil {
			next = i
		}
	}
	if next >= 0 {
		s.reader = next
	}
}

// bound limits the time of a step's prompt rows while a sequence is generating.
func (s *Sched) bound() {
	if s.o.MaxStep <= 0 {
		return
	}
	for i := range s.slots {
		if t := s.slots[i].task; t != nil && !s.prefills(i) && t.Next != nil {
			s.room.bounded, s.room.time = true, s.pace.left(s.o.MaxStep)
			return
		}
	}
}

// share returns the number of rows for a prompt when the rest of a step is
// divided among prompts. The first prompt of a step always gets a full tile.
func (s *Sched) share(i, waiting int) int {
	sl := &s.slots[i]
	r, have, remaining := &s.room, len(sl.tokens), sl.remaining()
	n := max(r.rows/waiting, min(r.rows, 1))
	if r.bounded {
		fit := s.pace.rows(r.time/float64(waiting), have)
		if fit < chunkRows && (!r.reads || s.pace.rows(r.time, have) >= chunkRows) {
			fit = chunkRows
		}
		if fit < chunkRows {
			return 0
		}
		n = min(n, fit)
	}
	n = min(n, remaining, s.cache.Step(sl.seq))
	if sl.task.OneByOne {
		n = min(n, 1)
	}
	return s.undivided(i, s.border(i, whole(have, n, remaining)))
}

// whole shortens a chunk that does not end its prompt to whole tiles, unless
// the chunk has less than a tile.
func whole(have, n, remaining int) int {
	if end := (have + n) / chunkRows * chunkRows; n < remaining && end > have {
		return end - have
	}
	return n
}

// border shortens a chunk so that it ends at the next stop of its prompt. In
// models with recurrent state the chunk also ends at the last page border
// within the prompt, where the state will be kept.
func (s *Sched) border(i, n int) int {
	have := len(s.slots[i].tokens)
	n = min(n, max(s.slots[i].task.nextSplice()-have, 0))
	for _, pos := range s.slots[i].task.stops {
		if pos > have {
			n = min(n, pos-have)
			break
		}
	}
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

// reserve takes the cells of a slot's next n rows and returns how many fit.
func (s *Sched) reserve(i, n int, prompt bool) int {
	sl := &s.slots[i]
	t := sl.task
	n, outputs := s.fit(t, len(sl.tokens), n)
	ok, err := false, error(nil)
	if x := t.tile(len(sl.tokens) + n); x != nil && x.Whole && x.At < len(sl.tokens)+n {
		n, err = 0, fmt.Errorf("sched: a request needs more than %d rows of a picture that is read in one step", s.o.Outputs)
	}
	if n > 0 {
		ok, err = s.extend(i, n)
	}
	switch {
	case errors.Is(err, pages.ErrFull) && t.stats.Generated > 0:
		s.finish(i, Length, nil) // it has all cells, and they are used up
	case err != nil:
		s.finish(i, Failed, err)
	}
	if !ok {
		return 0
	}
	s.room.rows -= n
	s.room.outputs -= outputs
	if prompt {
		s.room.reads = true
		s.room.time -= s.pace.cost(n, len(sl.tokens))
	}
	s.chunks = append(s.chunks, chunk{i, t, n, prompt && !t.OneByOne})
	return n
}

// fit shortens a chunk to the rows and the output rows that are left, and
// counts its outputs.
func (s *Sched) fit(t *task, have, n int) (rows, outputs int) {
	n = min(n, s.room.rows)
	for r := range n {
		if !t.shows(have + r) {
			continue
		}
		if outputs == s.room.outputs {
			return r, outputs
		}
		outputs++
	}
	return n, outputs
}

// shows reports whether the job reads the logits of a position.
func (t *task) shows(pos int) bool {
	return t.Want != nil && t.Want(pos) || t.Next != nil && pos >= len(t.tokens)-1
}

// build makes the batch from the chunks of jobs that still have their slots.
func (s *Sched) build() (decode, prefill int) {
	b := &s.batch
	b.Tokens, b.Pos, b.Spans, b.Outputs, b.Top = b.Tokens[:0], b.Pos[:0], b.Spans[:0], b.Outputs[:0], b.Top[:0]
	b.Coords, b.Embds, b.Sees = nil, nil, nil
	s.rows, s.stepped = s.rows[:0], s.stepped[:0]
	for k := range s.chunks {
		c := &s.chunks[k]
		sl := &s.slots[c.slot]
		if sl.task != c.task { // sent back to the queue
			continue
		}
		first, have := len(b.Tokens), len(sl.tokens)
		for r := range c.rows {
			s.row(c.slot, have+r)
		}
		sl.drafted = max(have+c.rows-len(sl.task.tokens), 0)
		rows := c.rows
		if sl.drafted > 0 && s.o.SingleRows {
			rows = 1
		}
		for r := 0; r < c.rows; r += rows {
			b.Spans = append(b.Spans, llm.Span{
				Seq: sl.seq, First: first + r, Rows: rows, Len: have + r + rows, State: s.cache.State(sl.seq), Prompt: c.prompt,
			})
		}
		s.stepped = append(s.stepped, c.slot)
		if c.prompt {
			prefill += c.rows
		} else {
			decode += c.rows
		}
	}
	return decode, prefill
}

// row adds a position of a slot's job to the batch.
func (s *Sched) row(i, pos int) {
	b, t := &s.batch, s.slots[i].task
	if t.shows(pos) {
		top := t.Top
		if t.Want != nil && t.Want(pos) {
			top = 0
		}
		b.Outputs = append(b.Outputs, int32(len(b.Tokens)))
		b.Top = append(b.Top, top)
		s.rows = append(s.rows, rowUse{i, pos, pos >= len(t.tokens)-1})
	}
	b.Tokens = append(b.Tokens, t.token(pos))
	b.Pos = append(b.Pos, int32(pos))
}
