package sched

import (
	"errors"

	"godwit/engine/kv"
	"godwit/engine/kv/pages"
)

// A job that states how long its answer may become gets a slot when the cells and exact pages for
// all of it are available. They are then promised to it. An open job does not state a length. It
// gets a slot when its text and one more page fit, and only its text is promised. If it grows
// further and the rest is promised to others, the newest open job returns to the queue and
// continues later. No job fails because memory runs out.

// claim returns the length that a job's sequence may reach, and whether the job
// is open. A limit beyond what a sequence can hold is ignored.
func (s *Sched) claim(t *task) (n int, open bool) {
	most := s.capacity()
	switch n = t.stats.Prompt; {
	case t.Next == nil:
	case t.Most > 0 && t.Most <= most-n:
		if n += t.Most; t.Drafter != nil { // drafted rows may lie beyond the end
			n = min(n+maxVerified, most)
		}
	case t.promised > 0:
		return t.promised, true
	default:
		return min(len(t.tokens)+kv.PageCells, most), true
	}
	return n, false
}

// claimed returns the claims of the jobs in slots.
func (s *Sched) claimed() []pages.Claim {
	s.claims = s.claims[:0]
	for i := range s.slots {
		if sl := &s.slots[i]; sl.task != nil {
			n, _ := s.claim(sl.task)
			s.claims = append(s.claims, pages.Claim{Seq: sl.seq, Len: max(n, s.cache.Len(sl.seq))})
		}
	}
	return s.claims
}

// waitsForSlot reports whether a job needs a particular slot that is busy.
func (s *Sched) waitsForSlot(t *task) bool { return t.Slot >= 0 && s.slots[t.Slot].task != nil }

// admits reports whether a job can be promised what it may need. If this is
// possible only by sharing the pages of a running job, the part of the text
// that was read from the store is dropped if it is longer than the shared part.
func (s *Sched) admits(t *task) bool {
	if s.busy() == 0 {
		return true
	}
	n, _ := s.claim(t)
	claims := s.claimed()
	if s.cache.Admits(claims, n, 0) {
		return true
	}
	shared := s.sharedWith(t)
	if shared == 0 || !s.cache.Admits(claims, n, shared) {
		return false
	}
	if t.taken != nil && t.taken.pos > shared {
		t.taken = nil
	}
	return true
}

// sharedWith returns the number of prompt tokens that a job would share with a
// running job.
func (s *Sched) sharedWith(t *task) int {
	src, n := s.longest(t)
	if n == 0 || s.slots[src].task == nil {
		return 0
	}
	return n
}

// guard returns ErrFull if n more positions of a slot are promised to other
// jobs.
func (s *Sched) guard(i, n int) error {
	sl := &s.slots[i]
	have := s.cache.Len(sl.seq)
	if (have+n+kv.PageCells-1)/kv.PageCells == (have+kv.PageCells-1)/kv.PageCells || s.busy() == 1 {
		return nil // the slot already has the cells, or no other job needs them
	}
	promised, open := s.claim(sl.task)
	if !open || have+n <= promised {
		return nil
	}
	claims := s.claimed()
	for k := range claims {
		if claims[k].Seq == sl.seq {
			claims[k].Len = have + n
		}
	}
	if s.cache.Admits(claims, 0, 0) {
		sl.task.promised = have + n
		return nil
	}
	return pages.ErrFull
}

// extend makes room for n positions of a slot. Idle sequences are dropped for
// it, the least recently used first. If that is not enough, or if the cells are
// promised to other jobs, it returns the newest open job to the queue and tries
// again. It reports false if that was the slot's own job, or if the slot has to
// wait for a step.
func (s *Sched) extend(i, n int) (bool, error) {
	for {
		s.yieldPrompt(i, n)
		err := s.guard(i, n)
		promised := err != nil // the cells are promised to other jobs
		if err == nil {
			err = s.cache.Extend(s.slots[i].seq, n)
		}
		switch {
		case !errors.Is(err, pages.ErrFull):
			return err == nil, err
		case !promised && s.dropIdle():
			continue
		case errors.Is(err, pages.ErrExact) && s.giveUp(i):
			continue
		case errors.Is(err, pages.ErrExact) && len(s.chunks) > 0:
			return false, nil // rows of this step hold them
		case s.busy() == 1:
			return false, err
		}
		newest := s.newestOpen(i)
		if s.slots[newest].task.chooses {
			return false, nil
		}
		s.requeue(newest)
		if newest == i {
			return false, nil
		}
	}
}

// newestOpen returns the slot whose job is sent back to the queue first: the
// newest open job, or the newest job if none is open.
func (s *Sched) newestOpen(i int) int {
	best, found := i, false
	for j := range s.slots {
		t := s.slots[j].task
		if t == nil {
			continue
		}
		_, open := s.claim(t)
		switch {
		case open == found && t.order > s.slots[best].task.order, open && !found:
			best, found = j, open
		}
	}
	return best
}

// giveUp frees the exact pages before the end of a running job's prompt, after
// copying them to the store. Only a later prompt would read them. It chooses
// the longest text in another slot, and slot i only if there is no other. It
// reports false if nothing is left to free.
func (s *Sched) giveUp(i int) bool {
	best := -1
	for j := range s.slots {
		sl := &s.slots[j]
		if sl.task == nil || s.cache.Prompted(sl.seq) == 0 {
			continue
		}
		if best < 0 || best == i || j != i && len(sl.tokens) > len(s.slots[best].tokens) {
			best = j
		}
	}
	if best < 0 {
		return false
	}
	s.giveUpPrompt(best)
	return true
}

// giveUpPrompt gives up the end of a slot's prompt as a position to continue from,
// after copying what a text reads there to the store.
func (s *Sched) giveUpPrompt(i int) {
	sl := &s.slots[i]
	if pos := s.cache.Prompted(sl.seq); pos <= len(sl.tokens) {
		s.keepAt(i, pos)
	}
	s.cache.GiveUp(sl.seq)
}

// yieldPrompt gives up the end of a slot's prompt if the next n positions need the
// memory of the conversation.
func (s *Sched) yieldPrompt(i, n int) {
	if s.cache.GivesUp(s.slots[i].seq, n) {
		s.giveUpPrompt(i)
	}
}
