package sched

import (
	"errors"

	"godwit/engine/kv"
)

// A job that says how long its answer may become is promised the cells and exact
// pages for all of it when it gets a slot, and otherwise waits. An open job, which
// does not say, is promised those of its text, and waits until there is a page more.
// Where it grows beyond that and others have been promised the rest, the newest open job goes back
// to the queue and continues later. No job fails because memory runs out.

// claim is the length that a job's sequence may reach, and whether it is open. A
// limit beyond what a sequence can hold does not count.
func (s *Sched) claim(t *task) (n int, open bool) {
	most := s.capacity()
	switch n = t.stats.Prompt; {
	case t.Next == nil:
	case t.Most > 0 && t.Most <= most-n:
		if n += t.Most; t.Drafter != nil { // rows of drafts may lie beyond its end
			n = min(n+maxVerified, most)
		}
	case t.promised > 0:
		return t.promised, true
	default:
		return min(len(t.tokens)+kv.PageCells, most), true
	}
	return n, false
}

// claimed lists the claims of the jobs in slots.
func (s *Sched) claimed() []kv.Claim {
	s.claims = s.claims[:0]
	for i := range s.slots {
		if sl := &s.slots[i]; sl.task != nil {
			n, _ := s.claim(sl.task)
			s.claims = append(s.claims, kv.Claim{Seq: sl.seq, Len: max(n, s.cache.Len(sl.seq))})
		}
	}
	return s.claims
}

// waitsForSlot reports whether a job wants a slot that is busy.
func (s *Sched) waitsForSlot(t *task) bool { return t.Slot >= 0 && s.slots[t.Slot].task != nil }

// admits reports whether a job can be promised what it may need. Where that is so
// only if it shares the pages of a running job, what was taken for it from the
// store is given up.
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

// sharedWith is how much of a job's prompt running jobs hold where it would be
// taken from them.
func (s *Sched) sharedWith(t *task) int {
	src, n := s.longest(t)
	if n == 0 || s.slots[src].task == nil {
		return 0
	}
	return n
}

// guard reports with an ErrFull that n more positions of a slot are promised to
// other jobs.
func (s *Sched) guard(i, n int) error {
	sl := &s.slots[i]
	have := s.cache.Len(sl.seq)
	if (have+n+kv.PageCells-1)/kv.PageCells == (have+kv.PageCells-1)/kv.PageCells || s.busy() == 1 {
		return nil // it has the cells
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
	return kv.ErrFull
}

// extend makes room for n positions of a slot. Idle sequences give way to it, the
// least recently used first. An open job that has no room, or that holds what was
// promised to others, is sent back to the queue, the newest first. It reports false
// if that is the slot's own job, or if the job has to wait for a step.
func (s *Sched) extend(i, n int) (bool, error) {
	for {
		err := s.guard(i, n)
		promised := err != nil // to others
		if err == nil {
			err = s.cache.Extend(s.slots[i].seq, n)
		}
		switch {
		case !errors.Is(err, kv.ErrFull):
			return err == nil, err
		case !promised && s.dropIdle():
			continue
		case errors.Is(err, kv.ErrExact) && s.giveUp(i):
			continue
		case errors.Is(err, kv.ErrExact) && len(s.chunks) > 0:
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

// newestOpen is the slot whose job gives way to others: the newest open one, or
// else the newest.
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

// giveUp frees the exact pages before the end of a running job's prompt, which only
// a later prompt would read: those of the job that is not slot i's and whose text
// is longest, or else of slot i's. The store keeps them. false: all were given up.
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
	sl := &s.slots[best]
	if pos := s.cache.Prompted(sl.seq); pos <= len(sl.tokens) {
		s.keepAt(best, pos)
	}
	s.cache.GiveUp(sl.seq)
	return true
}
