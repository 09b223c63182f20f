package pages

import (
	"errors"
	"fmt"

	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// mark is a checkpoint of a sequence's recurrent state.
type mark struct {
	pos  int
	slot int32
}

// states are the slots of recurrent states. Slot i < seqs is the live state of
// sequence i. The other slots hold checkpoints.
type states struct {
	live int
	refs []int32  // sequences that hold the checkpoint, by slot
	used []uint64 // clock of its last use, by slot
	free []int32
}

func newStates(l *layout.Layout, seqs int) states {
	slots := l.StateSlots()
	if slots == 0 {
		return states{}
	}
	s := states{live: seqs, refs: make([]int32, slots), used: make([]uint64, slots)}
	for slot := slots - 1; slot >= seqs; slot-- {
		s.free = append(s.free, int32(slot))
	}
	return s
}

// on reports whether the model has recurrent state.
func (s *states) on() bool { return s.refs != nil }

func (s *states) release(slot int32) {
	if s.refs[slot]--; s.refs[slot] == 0 {
		s.free = append(s.free, slot)
	}
}

// cut drops the checkpoints beyond pos, and all of them at 0.
func (s *states) cut(q *sequence, pos int) {
	for len(q.marks) > 0 && (q.marks[len(q.marks)-1].pos > pos || pos == 0) {
		s.release(q.marks[len(q.marks)-1].slot)
		q.marks = q.marks[:len(q.marks)-1]
	}
}

// share gives d the checkpoints of q up to pos.
func (s *states) share(d, q *sequence, pos int) {
	for _, m := range q.marks {
		if m.pos <= pos {
			s.refs[m.slot]++
			d.marks = append(d.marks, m)
		}
	}
}

// State returns the slot of a sequence's live recurrent state. A span that starts
// at position 0 starts from a zero state, whatever the slot holds.
func (c *Cache) State(seq llm.Seq) int32 {
	if !c.states.on() {
		return 0
	}
	return int32(seq)
}

// Checkpoint keeps the current recurrent state of a sequence, so that Truncate and
// Fork can return to this position. If there is no free slot, it replaces the
// checkpoint that was made or used longest ago. It does nothing for models without
// recurrent state, or if the layout has no room for checkpoints.
func (c *Cache) Checkpoint(seq llm.Seq) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	if n := len(s.marks); !c.states.on() || s.len == 0 || n > 0 && s.marks[n-1].pos == s.len {
		return nil
	}
	if len(c.states.free) == 0 && !c.forget() {
		return nil
	}
	n := len(c.states.free) - 1
	slot := c.states.free[n]
	if err := c.copyState(slot, int32(seq)); err != nil {
		return err
	}
	c.states.free = c.states.free[:n]
	c.clock++
	c.states.refs[slot], c.states.used[slot] = 1, c.clock
	s.marks = append(s.marks, mark{s.len, slot})
	c.point(s, s.len, false)
	return nil
}

// maxSaved is the number of checkpoints that are saved with a sequence. The newest
// are saved, because the next prompts are most likely to differ there.
const maxSaved = 8

// earlier returns the newest checkpoints before the end of the sequence. The state
// at the end is the live state.
func (s *sequence) earlier() []mark {
	list := s.marks
	if n := len(list); n > 0 && list[n-1].pos == s.len {
		list = list[:n-1]
	}
	return list[max(0, len(list)-maxSaved):]
}

// restoreMarks makes room for checkpoints at these positions. It returns their
// slots, with -1 for a checkpoint without a slot.
func (c *Cache) restoreMarks(s *sequence, at []int) []int32 {
	slots := make([]int32, len(at))
	for i, pos := range at {
		slots[i] = -1
		if len(c.states.free) == 0 && !c.forget() {
			continue
		}
		n := len(c.states.free) - 1
		slot := c.states.free[n]
		c.states.free = c.states.free[:n]
		c.clock++
		c.states.refs[slot], c.states.used[slot] = 1, c.clock
		s.marks, slots[i] = append(s.marks, mark{pos, slot}), slot
	}
	return slots
}

// forget drops the least recently used checkpoint, for every sequence that holds
// it.
func (c *Cache) forget() bool {
	oldest := int32(-1)
	for slot := c.states.live; slot < len(c.states.refs); slot++ {
		if c.states.refs[slot] > 0 && (oldest < 0 || c.states.used[slot] < c.states.used[oldest]) {
			oldest = int32(slot)
		}
	}
	if oldest < 0 {
		return false
	}
	for i := range c.seqs {
		s := &c.seqs[i]
		for j := len(s.marks) - 1; j >= 0; j-- {
			if s.marks[j].slot == oldest {
				pos := s.marks[j].pos
				c.states.release(oldest)
				s.marks = append(s.marks[:j], s.marks[j+1:]...)
				c.unpointAt(s, pos)
			}
		}
	}
	return true
}

func (c *Cache) copyState(dst, src int32) error {
	if c.copier == nil {
		return errors.New("kv: a recurrent state needs a copy and the cache has no Copier")
	}
	if err := c.copier.CopyState(dst, src); err != nil {
		return fmt.Errorf("kv: state %d to %d: %w", src, dst, err)
	}
	return nil
}
