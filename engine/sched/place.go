package sched

import (
	"slices"
	"time"

	"godwit/engine/kv"
	"godwit/engine/llm"
)

// assignSlots gives idle slots to queued jobs in order. A job that needs a particular busy slot
// does not block the jobs behind it. After the cells have run out, no job starts until one has
// ended.
func (s *Sched) assignSlots() {
	if n := s.busy(); s.hold && n > 0 || n == len(s.slots) {
		return
	}
	s.hold = false
	kept := s.queue[:0]
	for k, t := range s.queue {
		if s.waitsForSlot(t) {
			kept = append(kept, t)
			continue
		}
		if !s.admits(t) {
			kept = append(kept, s.queue[k:]...)
			break
		}
		if !s.ready(t) {
			kept = append(kept, t)
		} else if !s.admits(t) { // pages from the store are copied, not shared, so the job may now need more
			kept = append(kept, s.queue[k:]...)
			break
		} else if i := s.choose(t); i >= 0 {
			t.splices = s.findSplices(t, i)
			s.start(t, i)
		} else {
			kept = append(kept, t)
		}
	}
	clear(s.queue[len(kept):])
	s.queue = kept
}

// start gives a job its slot. The slot already holds the reused part of its
// prompt.
func (s *Sched) start(t *task, i int) {
	s.admit++
	if t.order == 0 {
		t.order = s.admit
	}
	if t.started.IsZero() {
		t.started = time.Now()
		t.stats.Waited = t.started.Sub(t.queued)
	}
	t.stats.Slot = i
	t.promised = len(t.tokens)
	sl := &s.slots[i]
	sl.task, sl.salt, sl.private, sl.prompt = t, t.Salt, t.Private, t.stats.Prompt
	clear(sl.chain.given)
	sl.chain.pages = 0 // the store may have dropped any of the pages
	if s.o.Prefixes != nil {
		sl.chain.root = s.root(t)
	}
	err := s.cache.Keep(s.slots[i].seq, t.stats.Prompt-1)
	if err == nil && t.diverges > 0 && !s.o.StateModel {
		err = s.cache.Point(s.slots[i].seq, t.diverges, true)
	}
	if err != nil {
		panic("sched: a slot without a sequence: " + err.Error())
	}
	if t.Next != nil {
		t.tokens = grow(t.tokens, s.capacity())
		s.slots[i].tokens = grow(s.slots[i].tokens, s.capacity())
	}
	reused := min(len(s.slots[i].tokens), t.stats.Prompt)
	if t.stats.Generated == 0 {
		t.stats.Cached = reused
		r := Reuse{t.stats, t.alike, t.Borders, t.Roles, s.cache.HasExact(), t.evicted, t.elsewhere}
		t.stats.Ended, t.stats.Why = r.End()
		if s.o.Reused != nil {
			s.o.Reused(t.stats)
		}
	}
	if t.Prefilled != nil {
		t.Prefilled(reused, &t.stats)
	}
}

// busy returns the number of slots with a job.
func (s *Sched) busy() (n int) {
	for i := range s.slots {
		if s.slots[i].task != nil {
			n++
		}
	}
	return n
}

// choose finds a slot for a job. It leaves in it the longest prefix of the
// prompt that any slot's cells hold, in whole pages. It returns -1 if every
// slot is busy.
func (s *Sched) choose(t *task) int {
	dst := t.Slot
	if dst < 0 {
		dst = s.leastUsed(-1)
	}
	if dst < 0 || s.slots[dst].task != nil {
		return -1
	}
	src, n := s.longest(t)
	if got := t.taken; got != nil {
		t.taken = nil
		if got.pos > n {
			if s.adopt(t, dst, got) {
				return dst
			}
			src, n = s.longest(t)
		}
	}
	if n == 0 {
		s.empty(dst)
		return dst
	}
	if s.slots[src].task == nil && (t.Slot == src || t.Slot < 0 && len(s.slots[src].tokens)-n < kv.PageCells) {
		dst = src
	} else if t.Slot < 0 && dst == src {
		if other := s.leastUsed(src); other >= 0 {
			dst = other
		}
	}
	if dst == src {
		s.cut(dst, n)
		return dst
	}
	s.empty(dst)
	got, err := s.cache.Fork(s.slots[dst].seq, s.slots[src].seq, n)
	if err != nil {
		s.empty(dst)
		return dst
	}
	s.slots[dst].tokens = append(s.slots[dst].tokens[:0], s.slots[src].tokens[:got]...)
	s.align(dst, got)
	return dst
}

// longest finds the slot whose cells hold the longest prefix of the prompt that can be continued.
// At least one token is left to compute. It also records the farthest position where a slot's text
// diverges from the prompt.
func (s *Sched) longest(t *task) (src, n int) {
	t.diverges = 0
	if t.Fresh {
		return 0, 0
	}
	for i := range s.slots {
		sl := &s.slots[i]
		if sl.salt != t.Salt || sl.private {
			continue
		}
		l := common(sl.tokens, t.tokens[:len(t.tokens)-1])
		t.alike = max(t.alike, l)
		if sl.mixed > 0 {
			l = min(l, sl.mixed)
		}
		if !s.o.StateModel {
			l = l / kv.PageCells * kv.PageCells
		}
		if len(sl.tokens)-l >= kv.PageCells {
			t.diverges = max(t.diverges, l)
		}
		if l = s.cache.Reach(sl.seq, l); l > n {
			src, n = i, l
		}
	}
	return src, n
}

// leastUsed returns the least recently used idle slot other than except, or -1.
// Empty slots come first.
func (s *Sched) leastUsed(except int) int {
	best := -1
	for i := range s.slots {
		sl := &s.slots[i]
		if i == except || sl.task != nil {
			continue
		}
		if best < 0 || s.age(i) < s.age(best) {
			best = i
		}
	}
	return best
}

func (s *Sched) age(i int) uint64 {
	if len(s.slots[i].tokens) == 0 {
		return 0
	}
	return s.slots[i].used
}

// cut shortens a slot to at most n positions, whole pages.
func (s *Sched) cut(i, n int) {
	s.flush(i)
	got, err := s.cache.Truncate(s.slots[i].seq, n)
	if err != nil {
		s.forget(i)
		return
	}
	s.slots[i].tokens = s.slots[i].tokens[:got]
	s.slots[i].chain.cut(got)
	if got <= s.slots[i].mixed {
		s.slots[i].mixed = 0
	}
	s.align(i, got)
}

// align shortens a slot to whole pages if it could not be cut at the requested position, so
// that the rest of a prompt is always computed in the same pages.
func (s *Sched) align(i, got int) {
	if got%kv.PageCells != 0 && !s.o.StateModel {
		s.cut(i, got/kv.PageCells*kv.PageCells)
	}
}

// empty copies a slot's contents to the store and then drops them.
func (s *Sched) empty(i int) {
	s.flush(i)
	s.forget(i)
}

// forget drops what a slot holds.
func (s *Sched) forget(i int) {
	sl := &s.slots[i]
	s.cache.Drop(sl.seq)
	sl.tokens, sl.mixed, sl.prompt, sl.copied = sl.tokens[:0], 0, 0, false
	sl.chain.cut(0)
}

// common returns the length of the longest common prefix.
func common(a, b []llm.Token) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// dropIdle empties the least recently used idle slot.
func (s *Sched) dropIdle() bool { return s.dropIdleBut(-1) }

// dropIdleBut empties the least recently used idle slot other than except.
func (s *Sched) dropIdleBut(except int) bool {
	best := -1
	for i := range s.slots {
		sl := &s.slots[i]
		if i != except && sl.task == nil && len(sl.tokens) > 0 && (best < 0 || sl.used < s.slots[best].used) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	s.empty(best)
	return true
}

// requeue takes a job out of its slot and puts it at the head of the queue.
// What it has generated becomes part of its prompt.
func (s *Sched) requeue(i int) {
	t := s.slots[i].task
	s.slots[i].task, s.slots[i].chain.dirty, t.looked, t.promised = nil, true, false, 0
	s.hold = true
	s.empty(i)
	s.queue = append(s.queue, nil)
	copy(s.queue[1:], s.queue)
	s.queue[0] = t
}

// grow makes room for n tokens in total, so that generating allocates nothing.
func grow(tokens []llm.Token, n int) []llm.Token {
	return slices.Grow(tokens, max(n-len(tokens), 0))
}
