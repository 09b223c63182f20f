package sched

import (
	"errors"

	"godwit/engine/kv"
	"godwit/engine/kv/pages"
	"godwit/engine/prefix"
)

// taken is the beginning of a prompt, read from the store into memory.
type taken struct {
	match *prefix.Match
	pos   int
	pages map[[2]int][]byte // keyed by page and part
	point []byte
	disk  int // number of pages that came from disk, at least in part
	err   error
}

// ready reports whether a job can get a slot now. If only the store has pages of its prompt, they
// are first read outside the loop.
func (s *Sched) ready(t *task) bool {
	if s.o.Prefixes == nil || t.Fresh || t.looked {
		return !t.fetching
	}
	if t.Slot < 0 && s.leastUsed(-1) < 0 || t.Slot >= 0 && s.slots[t.Slot].task != nil {
		return true // no slot is free, so the job gets none anyway
	}
	if s.fetching > 0 && s.fetching >= len(s.slots)-s.busy() {
		return false // the free slots are reserved for jobs whose pages are being read
	}
	t.looked = true
	most := len(t.tokens) - 1
	_, n := s.longest(t)
	s.flushAlike(t, n)
	m := s.o.Prefixes.Match(s.root(t), t.tokens[:most])
	pos := s.cache.Longest(m, most)
	t.alike, t.evicted = m.Pages()*kv.PageCells, m.Evicted()
	if t.alike+kv.PageCells <= most {
		t.elsewhere = s.o.Prefixes.Elsewhere(s.o.Origin, t.Salt, t.tokens[:most])
	}
	if pos <= n {
		return true
	}
	t.fetching = true
	s.fetching++
	parts := make([][2]int, s.cache.Parts())
	for i := range parts {
		parts[i][0], parts[i][1] = s.cache.Needed(i, pos)
	}
	points := s.cache.HasPoints()
	s.apart.Go(func() {
		got := fetch(m, pos, parts, points)
		select {
		case s.ops <- func() {
			t.fetching = false
			s.fetching--
			if got.err == nil {
				t.taken = got
			}
		}:
		case <-s.quit:
		}
	})
	return false
}

// flushAlike stores the texts of slots that share more of a prompt than it can reuse from them,
// because they cannot be cut where the texts diverge. The store may then let the job continue from a
// later position.
func (s *Sched) flushAlike(t *task, n int) {
	for i := range s.slots {
		sl := &s.slots[i]
		if sl.salt == t.Salt && s.keeps(i) && common(sl.tokens, t.tokens)-n > kv.PageCells {
			s.flush(i)
		}
	}
}

// root returns the root key of a job's texts.
func (s *Sched) root(t *task) prefix.Key {
	return s.o.Prefixes.RootOf(s.o.Origin, t.Salt)
}

// fetch reads the pages that a text needs to continue at pos.
func fetch(m *prefix.Match, pos int, parts [][2]int, points bool) *taken {
	t := &taken{match: m, pos: pos, pages: map[[2]int][]byte{}}
	disk := map[int]bool{}
	for g, r := range parts {
		for page := r[0]; page < r[1]; page++ {
			data, from, err := m.Read(page, g)
			if err != nil {
				t.err = err
				return t
			}
			t.pages[[2]int{page, g}] = data
			if from {
				disk[page] = true
			}
		}
	}
	if points {
		t.point, _, t.err = m.ReadPoint(pos)
	}
	t.disk = len(disk)
	return t
}

// adopt fills an idle slot with the pages read for a job. It drops other idle sequences if
// necessary. If it returns false, the slot is empty.
func (s *Sched) adopt(t *task, dst int, got *taken) bool {
	s.empty(dst)
	sl := &s.slots[dst]
	page := func(page, part int) ([]byte, error) {
		data, ok := got.pages[[2]int{page, part}]
		if !ok {
			return nil, prefix.ErrGone
		}
		return data, nil
	}
	for {
		err := s.cache.Adopt(sl.seq, got.pos, page, got.point, s.prog)
		if errors.Is(err, pages.ErrFull) && (s.dropIdle() || errors.Is(err, pages.ErrExact) && s.giveUp(dst)) {
			continue
		}
		if err != nil {
			if !errors.Is(err, pages.ErrFull) {
				s.unkept(err)
			}
			s.empty(dst)
			return false
		}
		break
	}
	sl.tokens = append(sl.tokens[:0], t.tokens[:got.pos]...)
	if t.stats.Generated == 0 {
		t.stats.Stored, t.stats.FromDisk = got.pos, min(got.disk*kv.PageCells, got.pos)
	}
	got.match.Use(got.pos)
	return true
}
