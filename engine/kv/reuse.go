package kv

import (
	"slices"

	"godwit/engine/llm"
)

// Which prefixes of a sequence can be continued.
//
// The position of a row decides in which form it reads each page: exact for
// the pages of the newest positions, packed for those before. A sequence that
// has grown past a page drops its exact form, so a row that follows a cut could
// only read the packed one, and the answer would differ from that of a prompt
// read from its beginning. The rule is therefore: a sequence can be cut to a
// position only if a row there finds every page in the form in which a cold
// prompt reads it. Cache.readable is the only place that decides it; Truncate,
// Fork, Reach and the saved sequences follow it.
//
// Points are positions for which the exact pages are kept. One, the end of the
// newest prompt, is guaranteed. The others use exact pages that are free and are
// dropped when those are needed: the end of each chunk that was read, the ends of
// earlier prompts and answers, and the positions where another prompt differed from
// the text.

// maxPoints is the most points of one sequence, in memory and in a saved one.
const maxPoints = 32

// sparePoints is how many points a cache has room for when every sequence is
// in use and reads a chunk.
const sparePoints = 4

// point is a position to which a sequence can be cut.
type point struct {
	pos    int
	parted bool // another prompt differs from here on
}

// needs reports whether a row at pos reads the exact form of page i.
func (w Window) needs(pos, i int) bool {
	return i*PageCells < pos && i >= w.FirstExact(pos)
}

// keeps reports whether page i belongs to a point of the sequence or to the
// end of its prompt.
func (s *sequence) keeps(w Window, i int) bool {
	if w.needs(s.keep, i) {
		return true
	}
	for _, q := range s.points {
		if w.needs(q.pos, i) {
			return true
		}
	}
	return false
}

// readable reports whether a row of s at pos, and all behind it, find what they
// read as in a prompt read from its beginning. pos is inside the sequence.
func (c *Cache) readable(s *sequence, pos int) bool {
	for g := range c.pools {
		p := &c.exact[g]
		if p.selfCalibrated && pos > 0 && pos < SelfRows {
			return false // what a conversation measures on its first rows cannot be taken back
		}
		if !c.held(s, g, pos) {
			return false
		}
		if !p.on() || pos == 0 {
			continue
		}
		if s.moved {
			return false
		}
		for i := p.window.FirstExact(pos); i*PageCells < pos; i++ {
			if s.exact[g][i] < 0 {
				return false
			}
		}
	}
	return true
}

// held reports whether group g still has what a row at the last page border
// before pos sees.
func (c *Cache) held(s *sequence, g, pos int) bool {
	return s.first[g] == 0 || max(pos/PageCells*PageCells-c.pools[g].window+1, 0) >= s.first[g]*PageCells
}

// reach is the largest position at most pos that s can be cut to, and in
// models with recurrent state the checkpoint there. Page borders are tried
// below pos.
func (c *Cache) reach(s *sequence, pos int) (int, *mark) {
	if pos >= s.len {
		return s.len, nil
	}
	if c.states.on() {
		for i := len(s.marks) - 1; i >= 0; i-- {
			if m := &s.marks[i]; m.pos <= pos && c.readable(s, m.pos) {
				return m.pos, m
			}
		}
		return 0, nil
	}
	for pos > 0 && !c.readable(s, pos) {
		pos = (pos - 1) / PageCells * PageCells
	}
	return pos, nil
}

// Reach is the position that Truncate and Fork would reach for pos.
func (c *Cache) Reach(seq llm.Seq, pos int) int {
	s, err := c.seq(seq)
	if err != nil {
		return 0
	}
	c.settle(s)
	to, _ := c.reach(s, max(pos, 0))
	return to
}

// Draftable is how many positions a sequence can be extended by so that all except
// the first can be taken back with Truncate at once. They stay in front of the next
// page border: a row there changes the form in which earlier pages are read.
func (c *Cache) Draftable(seq llm.Seq) int {
	s, err := c.seq(seq)
	if err != nil || c.states.on() || s.moved && c.hasExact() {
		return 1
	}
	if s.len < SelfRows && c.selfCalibrated() {
		return 1
	}
	return max(PageCells-1-s.len%PageCells, 1)
}

// ReuseFrom is the length of the shortest prefix of a sequence, in whole pages
// or up to a checkpoint, that can be read on. It is the whole length where
// only that can.
func (c *Cache) ReuseFrom(seq llm.Seq) int {
	s, err := c.seq(seq)
	if err != nil {
		return 0
	}
	c.settle(s)
	if c.states.on() {
		for _, m := range s.marks {
			if c.readable(s, m.pos) {
				return m.pos
			}
		}
		return s.len
	}
	for pos := PageCells; pos < s.len; pos += PageCells {
		if c.readable(s, pos) {
			return pos
		}
	}
	return s.len
}

// Point asks to keep a position of a sequence, which may not be read yet, as
// one that Truncate and Fork can reach: the last page border up to pos, or in
// models with recurrent state pos itself. It holds until the exact pages are
// needed elsewhere; parted points are given up last. Without exact pages every
// position is reached anyway, and nothing is kept.
func (c *Cache) Point(seq llm.Seq, pos int, parted bool) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	if !c.states.on() {
		pos = pos / PageCells * PageCells
	}
	c.point(s, pos, parted)
	return nil
}

// HasExact reports whether any pages are kept exact.
func (c *Cache) HasExact() bool { return c.hasExact() }

// selfCalibrated reports whether conversations calibrate their own keys in any group.
func (c *Cache) selfCalibrated() bool {
	return slices.ContainsFunc(c.exact, func(p exactPool) bool { return p.selfCalibrated })
}

// hasExact reports whether any group has exact pages.
func (c *Cache) hasExact() bool {
	return slices.ContainsFunc(c.exact, func(p exactPool) bool { return p.on() })
}

func (c *Cache) point(s *sequence, pos int, parted bool) {
	if pos <= 0 || !c.hasExact() || pos <= s.len && (!c.readable(s, pos) || c.states.on() && !s.marked(pos)) {
		return
	}
	i, found := slices.BinarySearchFunc(s.points, pos, func(q point, pos int) int { return q.pos - pos })
	if found {
		s.points[i].parted = s.points[i].parted || parted
		return
	}
	s.points = slices.Insert(s.points, i, point{pos, parted})
	if len(s.points) > maxPoints {
		c.unpoint(s, s.cheapest())
	}
}

// marked reports whether s has a checkpoint at pos.
func (s *sequence) marked(pos int) bool {
	return slices.ContainsFunc(s.marks, func(m mark) bool { return m.pos == pos })
}

// unpoint gives up a point of s and the exact pages that only it needs.
func (c *Cache) unpoint(s *sequence, k int) {
	pos := s.points[k].pos
	s.points = slices.Delete(s.points, k, k+1)
	c.unneeded(s, pos)
}

// unneeded drops the exact pages before pos that no point needs any more.
func (c *Cache) unneeded(s *sequence, pos int) {
	for g := range c.exact {
		p := &c.exact[g]
		if !p.on() {
			continue
		}
		end := min((pos+PageCells-1)/PageCells, s.low[g])
		for i := p.window.FirstExact(pos); i < end; i++ {
			if !s.keeps(p.window, i) {
				s.drop(p, g, i)
			}
		}
	}
}

// cheapest is the point whose loss costs the least: the one nearest to its
// predecessor in proportion to its distance from the end, so that points thin
// out towards the beginning. A parted point goes only where all others are gone.
func (s *sequence) cheapest() int {
	best, least, before := 0, 0.0, 0
	for k, q := range s.points {
		cost := float64(q.pos-before) / float64(max(s.len-q.pos, 0)+PageCells)
		if q.parted {
			cost += maxWindow
		}
		if k == 0 || cost < least {
			best, least = k, cost
		}
		before = q.pos
	}
	return best
}

// yield gives up a point of the sequence that has most of them, of the longest
// unused among equals. It reports false if no such slot exists.
func (c *Cache) yield() bool {
	var most *sequence
	for i := range c.seqs {
		s := &c.seqs[i]
		if n := len(s.points); n > 0 && (most == nil || n > len(most.points) || n == len(most.points) && s.used < most.used) {
			most = s
		}
	}
	if most == nil {
		return false
	}
	c.unpoint(most, most.cheapest())
	return true
}

// unpointAt gives up the point at pos, if there is one.
func (c *Cache) unpointAt(s *sequence, pos int) {
	for k := range s.points {
		if s.points[k].pos == pos {
			c.unpoint(s, k)
			return
		}
	}
}

// lapse gives up the points of s that cannot be reached any more.
func (c *Cache) lapse(s *sequence) {
	for k := len(s.points) - 1; k >= 0; k-- {
		if pos := s.points[k].pos; pos <= s.len && (!c.readable(s, pos) || c.states.on() && !s.marked(pos)) {
			c.unpoint(s, k)
		}
	}
}

// Moved says that the rows of a sequence were moved and encoded anew: their
// exact form may come from the packed one, so it is not cut back any more.
func (c *Cache) Moved(seq llm.Seq) {
	if s, err := c.seq(seq); err == nil {
		s.moved = true
	}
}

// spare is the exact pages for points that a group has beyond those that its
// sequences need in the worst case, at most one for 32 of its pages.
func (l *Layout) spare(g *Group) int {
	newest, prompt := g.Exact.held()
	others := (max(l.Settings.Seqs, 1) - 1) * (newest + prompt)
	return max(min(sparePoints*prompt, (g.Pages+31)/32)-others, 0)
}
