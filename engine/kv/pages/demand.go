package pages

import (
	"fmt"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// Admission. A sequence in use is guaranteed the pages and exact pages for the
// length that it may reach, so it never waits for other sequences. Sequences that
// are not in use only occupy what is left.

// ErrExact is an ErrFull for missing exact pages when there are enough cells.
var ErrExact = fmt.Errorf("%w of exact pages", ErrFull)

// Claim is the length that a sequence in use may reach.
type Claim struct {
	Seq llm.Seq
	Len int
}

// Admits reports whether all claims can be met together with a new sequence of n
// positions that shares its first positions with a claimed one. Sequences without a
// claim count as dropped.
func (c *Cache) Admits(claims []Claim, n, shared int) bool {
	for g := range c.pools {
		if !c.admitsCells(g, claims, n, shared) || !c.admitsExact(g, claims, n) {
			return false
		}
	}
	return true
}

// admitsCells is Admits for the packed pages of a group.
func (c *Cache) admitsCells(g int, claims []Claim, n, shared int) bool {
	p := &c.pools[g]
	size := len(p.refs)
	alone := func(n int) int { return layout.PagesOf(n) }
	if p.window > 0 { // a sequence gives back pages that it cannot see
		alone = func(n int) int { return min(layout.PagesOf(n), c.layout.WindowPages(p.window)) }
	}
	apart := alone(n) // number of pages if no pages were shared
	for _, x := range claims {
		apart += alone(x.Len)
	}
	if apart <= size {
		return true
	}
	need := max(layout.PagesOf(n)-shared/kv.PageCells, 0)
	c.stamp++
	for _, x := range claims {
		s := &c.seqs[x.Seq]
		for _, page := range s.tables[g] {
			if page >= 0 && p.stamps[page] != c.stamp {
				p.stamps[page] = c.stamp
				need++
			}
		}
		need += max(layout.PagesOf(x.Len)-len(s.tables[g]), 0)
		if s.shared(p, g) {
			need++
		}
	}
	return need <= size
}

// admitsExact is Admits for exact pages. Each sequence keeps the exact pages of its
// newest positions. Only one sequence grows at a time, and it needs as many again.
func (c *Cache) admitsExact(g int, claims []Claim, n int) bool {
	p := &c.exact[g]
	if !p.on() {
		return true
	}
	newest, _ := p.window.Held()
	need := newest + min(layout.PagesOf(n), newest)
	if p.window.Unbounded() { // room for growth is part of the memory of each conversation
		need -= newest
	}
	for _, x := range claims {
		need += min(layout.PagesOf(x.Len), newest)
	}
	return need <= len(p.refs) || len(claims) == 0
}

// exactRoom makes sure that group g has the exact pages to extend s by n. It drops
// points if necessary.
func (c *Cache) exactRoom(s *sequence, g, n int) error {
	p := &c.exact[g]
	if !p.on() || n == 0 {
		return nil
	}
	for {
		need := c.exactNeed(s, g, n)
		switch {
		case need <= len(p.free):
			return nil
		case c.yield():
		case s.grown || !c.layout.Settings.Admitted: // no row of a batch reads the exact pages that are left behind
			c.settleAll()
			if need <= len(p.free) {
				return nil
			}
			return c.noExact(p, need)
		default:
			return c.noExact(p, need)
		}
	}
}

func (c *Cache) noExact(p *exactPool, need int) error {
	return fmt.Errorf("%w: %d wanted, %d of %d free", ErrExact, need, len(p.free), len(p.refs))
}

// exactNeed returns how many exact pages a group needs for n more positions.
func (c *Cache) exactNeed(s *sequence, g, n int) (need int) {
	p := &c.exact[g]
	if s.shared(&c.pools[g], g) && s.exact[g][len(s.tables[g])-1] >= 0 {
		need++
	}
	first := p.window.FirstKept(s.len + n)
	for i := len(s.tables[g]); i < layout.PagesOf(s.len+n); i++ {
		if i >= first || s.keeps(p.window, i) {
			need++
		}
	}
	return need
}

// exactFree makes sure that group g has need free exact pages. It drops points
// if necessary. It must not be called while a batch is being built.
func (c *Cache) exactFree(g, need int) error {
	p := &c.exact[g]
	for len(p.free) < need && c.yield() {
	}
	if len(p.free) < need {
		return c.noExact(p, need)
	}
	return nil
}

// Prompted returns the position from which the prompt of a sequence can be
// continued again: the last page border before the prompt's end. It returns 0 if
// that position was given up.
func (c *Cache) Prompted(seq llm.Seq) int {
	if s, err := c.seq(seq); err == nil && c.hasExact() {
		return s.keep
	}
	return 0
}

// GiveUp gives up the end of a sequence's prompt as a position to continue from,
// together with its exact pages.
func (c *Cache) GiveUp(seq llm.Seq) {
	if s, err := c.seq(seq); err == nil {
		c.keepTo(s, 0)
	}
}
