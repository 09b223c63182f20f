package pages

import (
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// Which prefixes of a sequence can be continued.
//
// The position of a row decides in which form it reads each page: exact for the
// pages of the newest positions, packed for earlier ones. When a sequence grows
// beyond a page, it drops the page's exact form. A row that follows a cut could
// then only read the packed form, and the answer would differ from that of a prompt
// read from its beginning. The rule is therefore that a sequence can be cut to a
// position only if a row there finds every page in the form in which a prompt read
// from its beginning would read it. Only Cache.readable decides this. Truncate,
// Fork, Reach and the saved sequences use it.
//
// Points are positions for which the exact pages are kept. The end of the newest
// prompt is guaranteed. Other points use free exact pages and are dropped when
// those are needed elsewhere. They are the end of each chunk, the ends of earlier
// prompts and answers, and the positions where another prompt differed from the
// text.

// maxPoints is the maximum number of points of one sequence, in memory and in a
// saved one.
const maxPoints = 32

// partedCost is more than the cost of any point that is not parted.
const partedCost = 1 << 16

// point is a position to which a sequence can be cut.
type point struct {
	pos    int
	parted bool // another prompt diverges from the text at this position
}

// keeps reports whether page i belongs to a point of the sequence or to the
// end of its prompt.
func (s *sequence) keeps(w layout.Window, i int) bool {
	if w.Needs(s.keep, i) {
		return true
	}
	for _, q := range s.points {
		if w.Needs(q.pos, i) {
			return true
		}
	}
	return false
}

// readable reports whether a row of s at pos, and all later rows, read the same as
// in a prompt read from its beginning. pos is inside the sequence.
func (c *Cache) readable(s *sequence, pos int) bool {
	for g := range c.pools {
		p := &c.exact[g]
		if p.selfCalibrated && pos > 0 && pos < layout.SelfRows {
			return false // the calibration measured on the first rows cannot be undone
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
		for i := p.window.FirstExact(pos); i*kv.PageCells < pos; i++ {
			if s.exact[g][i] < 0 {
				return false
			}
		}
	}
	return true
}

// held reports whether group g still has the pages that a row at the last page
// border before pos sees.
func (c *Cache) held(s *sequence, g, pos int) bool {
	return s.first[g] == 0 || max(pos/kv.PageCells*kv.PageCells-c.pools[g].window+1, 0) >= s.first[g]*kv.PageCells
}

// reach returns the largest position up to pos to which s can be cut. In models
// with recurrent state, it also returns the checkpoint there. Below pos, only page
// borders are tried.
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
		pos = (pos - 1) / kv.PageCells * kv.PageCells
	}
	return pos, nil
}

// Reach returns the position that Fork would reach for pos. Truncate reaches the same position,
// except that it leaves a sequence that is not calibrated yet at its full length.
func (c *Cache) Reach(seq llm.Seq, pos int) int {
	s, err := c.seq(seq)
	if err != nil {
		return 0
	}
	c.settle(s)
	to, _ := c.reach(s, max(pos, 0))
	if c.calibrating(to) {
		return 0
	}
	return to
}

// calibrating reports whether a sequence of n positions has yet to calibrate its keys. Such a
// sequence shares no pages, because each of the two sequences would pack them with its own
// calibration.
func (c *Cache) calibrating(n int) bool {
	return n < layout.SelfRows && slices.ContainsFunc(c.exact, func(p exactPool) bool { return p.selfCalibrated })
}

// Draftable returns by how many positions a sequence can be extended so that
// Truncate can undo all except the first. The positions do not reach the next page
// border, because a row there changes the form in which earlier pages are read.
func (c *Cache) Draftable(seq llm.Seq) int {
	s, err := c.seq(seq)
	if err != nil || c.states.on() || s.moved && c.hasExact() {
		return 1
	}
	if c.calibrating(s.len) {
		return 1
	}
	return max(kv.PageCells-1-s.len%kv.PageCells, 1)
}

// ReuseFrom returns the length of the shortest prefix of a sequence that can be
// continued, in whole pages or up to a checkpoint. It returns the whole length if
// no shorter prefix can be continued.
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
	for pos := kv.PageCells; pos < s.len; pos += kv.PageCells {
		if c.readable(s, pos) {
			return pos
		}
	}
	return s.len
}

// Point requests that a position of a sequence stay reachable for Truncate and
// Fork. The position may still be ahead. It is rounded down to a page border,
// except in models with recurrent state. It is kept until the exact pages are
// needed elsewhere, and parted points are dropped last. Without exact pages
// every position is reachable, and nothing is kept.
func (c *Cache) Point(seq llm.Seq, pos int, parted bool) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	if !c.states.on() {
		pos = pos / kv.PageCells * kv.PageCells
	}
	c.point(s, pos, parted)
	return nil
}

// HasExact reports whether any pages are kept exact.
func (c *Cache) HasExact() bool { return c.hasExact() }

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
		c.unpoint(s, s.cheapest(anyPoint))
	}
}

// marked reports whether s has a checkpoint at pos.
func (s *sequence) marked(pos int) bool {
	return slices.ContainsFunc(s.marks, func(m mark) bool { return m.pos == pos })
}

// unpoint drops a point of s and the exact pages that only it needs.
func (c *Cache) unpoint(s *sequence, k int) {
	pos := s.points[k].pos
	s.points = slices.Delete(s.points, k, k+1)
	c.unneeded(s, pos)
}

// unneeded drops the exact pages that only a point or the end of a prompt at
// pos needed.
func (c *Cache) unneeded(s *sequence, pos int) {
	for g := range c.exact {
		p := &c.exact[g]
		if !p.on() {
			continue
		}
		end := min((pos+kv.PageCells-1)/kv.PageCells, s.low[g])
		for i := p.window.FirstExact(pos); i < end; i++ {
			if !s.keeps(p.window, i) {
				s.drop(p, g, i)
			}
		}
	}
}

// cheapest returns the point whose loss costs least. It is the point nearest to its
// predecessor in proportion to its distance from the end, so that points become
// sparser towards the beginning. A parted point is chosen only if all others are
// gone. Only some points are considered. If none is, the result is -1.
func (s *sequence) cheapest(some func(point) bool) int {
	best, least, before := -1, 0.0, 0
	for k, q := range s.points {
		cost := float64(q.pos-before) / float64(max(s.len-q.pos, 0)+kv.PageCells)
		if q.parted {
			cost += partedCost
		}
		if some(q) && (best < 0 || cost < least) {
			best, least = k, cost
		}
		before = q.pos
	}
	return best
}

func anyPoint(point) bool { return true }

// yield drops a point of the sequence with the most points. Among equals it picks
// the least recently used sequence. It returns false if no sequence has points.
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
	c.unpoint(most, most.cheapest(anyPoint))
	return true
}

// unpointAt drops the point at pos, if there is one.
func (c *Cache) unpointAt(s *sequence, pos int) {
	for k := range s.points {
		if s.points[k].pos == pos {
			c.unpoint(s, k)
			return
		}
	}
}

// lapse drops the points of s that cannot be reached any more.
func (c *Cache) lapse(s *sequence) {
	for k := len(s.points) - 1; k >= 0; k-- {
		if pos := s.points[k].pos; pos <= s.len && (!c.readable(s, pos) || c.states.on() && !s.marked(pos)) {
			c.unpoint(s, k)
		}
	}
}

// Moved records that the rows of a sequence were moved and encoded again. Their
// exact form may come from the packed one, so the sequence cannot be cut back any
// more.
func (c *Cache) Moved(seq llm.Seq) {
	if s, err := c.seq(seq); err == nil {
		s.moved = true
	}
}
