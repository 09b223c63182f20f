package pages

import (
	"errors"
	"fmt"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// ErrStep is the class of errors about more rows in one step than Step allows.
var ErrStep = errors.New("kv: too many rows in a step")

// The memory of one conversation. A row that is computed is guaranteed what it reads.
// Exact pages that only a later prompt would read are given up when the conversation
// needs their memory: first those of points, then those of the end of the prompt.

// Bytes returns the bytes that a sequence holds. Pages that it shares with others
// count in full. In a group with a window, packed pages that no row of the next
// chunk sees do not count, because they are given back when the pool needs them.
func (c *Cache) Bytes(seq llm.Seq) int64 {
	s, b := &c.seqs[seq], c.layout.Budget()
	if b == nil {
		b = layout.NewBudget(c.layout)
	}
	if s.len == 0 {
		return 0
	}
	return c.bytesWith(b, s, 0)
}

// bytesWith returns the bytes that s holds with n more positions.
func (c *Cache) bytesWith(b *layout.Budget, s *sequence, n int) int64 {
	sum := b.Packed(layout.PagesOf(s.len + n))
	for g := range c.exact {
		p := &c.exact[g]
		if !p.on() {
			continue
		}
		held, first := 0, p.window.FirstKept(s.len+n)
		for _, page := range s.exact[g] {
			if page >= 0 {
				held++
			}
		}
		for i := len(s.exact[g]); i < layout.PagesOf(s.len+n); i++ {
			if i >= first || s.keeps(p.window, i) {
				held++
			}
		}
		sum += b.Exact(g, held)
	}
	return sum
}

// bound makes room for n more positions of s in the memory of a conversation. It
// gives up points, and then the end of the prompt.
func (c *Cache) bound(seq llm.Seq, s *sequence, n int) error {
	b := c.layout.Budget()
	if b == nil {
		return nil
	}
	for c.bytesWith(b, s, n) > b.Bytes {
		switch k := s.cheapest(func(q point) bool { return c.costs(q.pos, s.len+n) }); {
		case k >= 0:
			c.unpoint(s, k)
		case s.keep > 0 && c.costs(s.keep, s.len+n):
			c.keepTo(s, 0)
		default:
			return fmt.Errorf("%w: sequence %d wants %d rows after %d, %d are possible", ErrStep, seq, n, s.len, c.Step(seq))
		}
	}
	return nil
}

// costs reports whether a row at pos reads exact pages that rows from n on do not
// read.
func (c *Cache) costs(pos, n int) bool {
	for g := range c.exact {
		if p := &c.exact[g]; p.on() && p.window.FirstExact(pos) < p.window.FirstKept(n) {
			return true
		}
	}
	return false
}

// Step returns the largest number of positions by which Extend can extend a sequence
// at once. It is limited only by a budget.
func (c *Cache) Step(seq llm.Seq) int {
	s, err := c.seq(seq)
	b := c.layout.Budget()
	if err != nil || b == nil {
		return layout.MaxCells
	}
	pages, most := layout.PagesOf(s.len), layout.PagesOf(c.layout.Settings.Cells)
	for pages < most && c.leastWith(b, s, pages+1) <= b.Bytes {
		pages++
	}
	return max(pages*kv.PageCells-s.len, 1)
}

// leastWith returns the bytes that s needs at least while it is extended to a number
// of pages.
func (c *Cache) leastWith(b *layout.Budget, s *sequence, pages int) int64 {
	sum := b.Packed(pages)
	for g := range c.exact {
		if p := &c.exact[g]; p.on() {
			held := pages - p.window.FirstKept(s.len)
			if !p.window.Unbounded() { // pages that a chunk leaves behind are passing
				held = min(held, layout.PagesOf(s.len)-p.window.FirstKept(s.len)+layout.PagesOf(p.window.Newest)+1)
			}
			sum += b.Exact(g, max(held, 0))
		}
	}
	return sum
}

// GivesUp reports whether Extend by n positions would give up the end of the prompt
// because the conversation needs its memory.
func (c *Cache) GivesUp(seq llm.Seq, n int) bool {
	s, err := c.seq(seq)
	b := c.layout.Budget()
	if err != nil || b == nil || s.keep == 0 || layout.PagesOf(s.len+n) == layout.PagesOf(s.len) || !c.costs(s.keep, s.len+n) {
		return false
	}
	sum := c.leastWith(b, s, layout.PagesOf(s.len+n))
	for g := range c.exact {
		if p := &c.exact[g]; p.on() {
			first, end := p.window.FirstExact(s.keep), min(layout.PagesOf(s.keep), p.window.FirstKept(s.len))
			sum += b.Exact(g, max(end-first, 0))
		}
	}
	return sum > b.Bytes
}
