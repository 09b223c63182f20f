package pages

import (
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// A page of a text has several parts in a store: the packed rows of each group and, with
// a budget, the exact rows of each group. An exact window of a budget can be as long as
// the text, so points share its whole pages instead of repeating them. Parts are numbered
// like groups, packed parts first.

// maxParts is the number of parts that a store has room for.
const maxParts = 15

// Parts returns the number of parts of a page.
func (c *Cache) Parts() int {
	if c.exactParts() {
		return 2 * len(c.pools)
	}
	return len(c.pools)
}

// exactParts reports whether exact rows of whole pages are parts.
func (c *Cache) exactParts() bool { return c.layout.Budget() != nil && 2*len(c.pools) <= maxParts }

// part returns the group of a part and whether it has the exact rows.
func (c *Cache) part(part int) (g int, exact bool) {
	return part % len(c.pools), part >= len(c.pools)
}

// windowed reports whether a part is given back while the sequence grows.
func (c *Cache) windowed(part int) bool {
	g, exact := c.part(part)
	return exact && c.exact[g].on() || !exact && c.pools[g].window > 0
}

// exactPart reports whether the exact rows of a page are a part of a text that ends
// at pos, rather than of the point there.
func (c *Cache) exactPart(g, page, pos int) bool {
	return c.exactParts() && page >= c.firstPiece(g) && (page+1)*kv.PageCells <= pos
}

// Needed returns the pages [from, to) of a part that a sequence which continues at pos
// reads in addition to the point there.
func (c *Cache) Needed(part, pos int) (from, to int) {
	g, exact := c.part(part)
	switch {
	case !exact:
		return max(visible(pos, c.pools[g].window), c.firstPiece(g)), c.tail(g, pos)
	case !c.exact[g].on():
		return 0, 0
	}
	return max(c.exact[g].window.FirstExact(pos), c.firstPiece(g)), pos / kv.PageCells
}

// walkExact visits the exact rows of a page.
func (c *Cache) walkExact(seq llm.Seq, g, page int, row pageRow) error {
	return c.eachOwner(g, func(i int, s kv.Side, x *layout.Side) error {
		for pos := page * kv.PageCells; pos < (page+1)*kv.PageCells && x.ExactRow > 0; pos++ {
			if err := row(x.ExactRow, i, s, layout.Exact, c.ExactCell(g, seq, pos)); err != nil {
				return err
			}
		}
		return nil
	})
}
