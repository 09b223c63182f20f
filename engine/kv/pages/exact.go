package pages

import (
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// The exact form of pages. Every sequence has a second table with the exact page of
// each of its pages, or -1. It keeps the exact pages of the newest positions and of
// the positions before the end of its prompt. If a chunk covers a page from its
// beginning, the page gets a passing exact page for that batch only.

// exactPool is the set of exact pages of one group.
type exactPool struct {
	window         layout.Window
	refs           []int32 // number of sequences that hold each page; nil without an exact window
	free           []int32 // free pages, used as a stack
	passing        int     // number of passing pages, which follow the pool's pages and exist for one batch
	packedByPage   bool    // pages are packed from their exact form
	selfCalibrated bool    // conversations calibrate their own keys
	steps          int     // number of steps in which a page is packed
	packed         []int32 // finished steps, by packed page
}

func newExactPool(g *layout.Group) exactPool {
	p := exactPool{window: g.Exact, packedByPage: g.PackedByPage, selfCalibrated: g.SelfCalibrated}
	if g.Exact.Newest == 0 {
		return p
	}
	p.passing, p.steps = g.Passing, g.Exact.PackSteps()
	p.refs, p.free = make([]int32, g.ExactPages), make([]int32, g.ExactPages)
	for i := range p.free {
		p.free[i] = int32(g.ExactPages - 1 - i)
	}
	p.packed = make([]int32, g.Pages)
	return p
}

func (p *exactPool) on() bool { return p.refs != nil }

func (p *exactPool) release(page int32) {
	if p.refs[page]--; p.refs[page] == 0 {
		p.free = append(p.free, page)
	}
}

// drop removes the exact form of page i of a sequence.
func (s *sequence) drop(p *exactPool, g, i int) {
	if i < len(s.exact[g]) && s.exact[g][i] >= 0 {
		p.release(s.exact[g][i])
		s.exact[g][i] = -1
	}
}

// settle gives back the exact pages that are not needed by a row at or after
// the last page border, by a point, or by the end of a prompt.
func (c *Cache) settle(s *sequence) {
	for g := range c.exact {
		p := &c.exact[g]
		if !p.on() {
			continue
		}
		first := p.window.FirstKept(s.len)
		for i := s.low[g]; i < first; i++ {
			if !s.keeps(p.window, i) {
				s.drop(p, g, i)
			}
		}
		s.low[g] = max(s.low[g], first)
	}
}

// keepTo makes pos the end of the prompt.
func (c *Cache) keepTo(s *sequence, pos int) {
	old := s.keep
	s.keep = max(pos, 0) / kv.PageCells * kv.PageCells
	c.unneeded(s, old)
}

// newBatch settles all sequences at the first Extend after a Fill. By then no
// row reads the exact pages that the last batch left behind.
func (c *Cache) newBatch() {
	if c.filled {
		c.filled = false
		c.settleAll()
		for i := range c.seqs {
			c.seqs[i].grown = false
		}
	}
}

func (c *Cache) settleAll() {
	for i := range c.seqs {
		c.settle(&c.seqs[i])
	}
}

// takeExact takes a page from the pool. exactRoom or exactFree has made sure that
// there is one.
func (c *Cache) takeExact(g int) int32 {
	p := &c.exact[g]
	n := len(p.free) - 1
	if n < 0 {
		panic("kv: exact pages have run out")
	}
	page := p.free[n]
	p.free = p.free[:n]
	p.refs[page] = 1
	return page
}

// grow adds exact pages to the new pages of s that need one.
func (c *Cache) grow(s *sequence) {
	for g := range c.exact {
		p := &c.exact[g]
		if !p.on() {
			continue
		}
		first := p.window.FirstKept(s.len)
		for i := len(s.exact[g]); i < len(s.tables[g]); i++ {
			page := int32(-1)
			if i >= first || s.keeps(p.window, i) {
				page = c.takeExact(g)
			}
			s.exact[g] = append(s.exact[g], page)
			p.packed[s.tables[g][i]] = 0
		}
	}
}

// copyExact gives s its own exact form of the first n cells of page i. The
// packed page was shared, and page is its copy.
func (c *Cache) copyExact(s *sequence, g, i int, page int32, n int) error {
	p := &c.exact[g]
	if !p.on() || s.exact[g][i] < 0 {
		return nil
	}
	old, copied := s.exact[g][i], c.takeExact(g)
	if err := c.copyCells(g, layout.Exact, copied*kv.PageCells, old*kv.PageCells, n); err != nil {
		p.release(copied)
		return err
	}
	p.release(old)
	s.exact[g][i], p.packed[page] = copied, 0
	return nil
}

// rewrite marks the packed form of the last page of s as invalid, because its cells
// will change.
func (c *Cache) rewrite(s *sequence) {
	if s.len%kv.PageCells == 0 {
		return
	}
	for g := range c.exact {
		if p := &c.exact[g]; p.on() {
			p.packed[s.tables[g][s.len/kv.PageCells]] = 0
		}
	}
}

// forkExact gives d, a fork of s at pos, its exact pages and a copy of the pinned
// rows.
func (c *Cache) forkExact(d, s *sequence, dst, src llm.Seq, pos int) error {
	d.keep = min(s.keep, pos/kv.PageCells*kv.PageCells)
	d.moved = s.moved && pos > 0
	for _, q := range s.points {
		if q.pos <= pos {
			d.points = append(d.points, q)
		}
	}
	for g := range c.exact {
		p := &c.exact[g]
		if p.selfCalibrated && pos > 0 {
			if err := c.copyCells(g, layout.Measured, int32(dst), int32(src), 1); err != nil {
				return err
			}
		}
		if n := p.window.Pinned; n > 0 && pos > 0 {
			if err := c.copyCells(g, layout.Pinned, int32(int(dst)*n), int32(int(src)*n), min(n, pos)); err != nil {
				return err
			}
		}
		if !p.on() {
			continue
		}
		d.low[g] = p.window.FirstKept(pos)
		for i, page := range s.exact[g][:len(d.tables[g])] {
			if i < d.low[g] && !d.keeps(p.window, i) {
				page = -1
			}
			if page >= 0 {
				p.refs[page]++
			}
			d.exact[g] = append(d.exact[g], page)
		}
	}
	return nil
}

// cutExact drops the exact pages from page keep on, leaving pos positions.
func (c *Cache) cutExact(s *sequence, keep, pos int) {
	for g := range c.exact {
		p := &c.exact[g]
		if !p.on() {
			continue
		}
		for i := keep; i < len(s.exact[g]); i++ {
			s.drop(p, g, i)
		}
		s.exact[g] = s.exact[g][:min(keep, len(s.exact[g]))]
	}
	for g := range c.exact { // before points are dropped, so that the pages that the new end needs stay
		s.low[g] = min(s.low[g], c.exact[g].window.FirstKept(pos))
	}
	for n := len(s.points); n > 0 && s.points[n-1].pos > pos; n = len(s.points) {
		c.unpoint(s, n-1)
	}
	if pos < s.keep {
		c.keepTo(s, pos)
	}
	s.moved = s.moved && pos > 0
}

// Keep sets the end of a sequence's prompt. The exact form of the newest positions
// before the last page border before pos is kept until the next Keep, so that a
// sequence cut there continues as before. The previous end of the prompt and the
// end of the text computed so far become points.
func (c *Cache) Keep(seq llm.Seq, pos int) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	if s.keep <= s.len {
		c.point(s, s.keep, false)
	}
	if c.states.on() || s.len%kv.PageCells == 0 {
		c.point(s, s.len, false)
	}
	c.keepTo(s, pos)
	return nil
}

// Fill writes the page tables of the batch's spans and the list of pages to pack.
// The tables belong to the cache and are valid until its next change.
func (c *Cache) Fill(b *llm.Batch) {
	b.Tables = fit3(b.Tables, len(c.pools))
	b.Exact = fit3(b.Exact, len(c.pools))
	for len(b.Packs) < len(c.pools) {
		b.Packs = append(b.Packs, nil)
	}
	b.Packs = b.Packs[:len(c.pools)]
	c.filled = true
	for g := range c.pools {
		b.Packs[g] = b.Packs[g][:0]
		passing := int32(len(c.exact[g].refs))
		for i := range b.Spans {
			sp := &b.Spans[i]
			s := &c.seqs[sp.Seq]
			b.Tables[g] = append(b.Tables[g], s.tables[g])
			if !c.exact[g].on() {
				continue
			}
			table := c.view(g, s, sp, &passing)
			b.Exact[g] = append(b.Exact[g], table)
			b.Packs[g] = c.exact[g].packs(b.Packs[g], sp, s.tables[g], table)
		}
	}
}

// fit3 returns n empty lists that reuse the memory of dst.
func fit3(dst [][][]int32, n int) [][][]int32 {
	for len(dst) < n {
		dst = append(dst, nil)
	}
	dst = dst[:n]
	for g := range dst {
		dst[g] = dst[g][:0]
	}
	return dst
}

// view returns the exact table of a span: the sequence's own table, with a passing
// page for each page that begins inside the span and has no exact page.
func (c *Cache) view(g int, s *sequence, sp *llm.Span, next *int32) []int32 {
	p := &c.exact[g]
	table := s.exact[g]
	end := int32(len(p.refs) + p.passing)
	for i := (sp.Len - sp.Rows + kv.PageCells - 1) / kv.PageCells; i < len(table) && *next < end; i++ {
		if table[i] >= 0 || s.tables[g][i] < 0 {
			continue
		}
		if &table[0] == &s.exact[g][0] {
			s.view[g] = append(s.view[g][:0], table...)
			table = s.view[g]
		}
		table[i] = *next
		*next++
	}
	return table
}

// packs adds the full pages of a span that are not packed yet. The work is
// spread over the steps before a row first reads the page in packed form. Forks
// share pages. A shared page is packed at once if any fork needs it packed.
func (p *exactPool) packs(dst []llm.Pack, sp *llm.Span, table, exact []int32) []llm.Pack {
	if !p.packedByPage {
		return dst
	}
	for i := p.window.FirstKept(sp.Len - sp.Rows); (i+1)*kv.PageCells <= sp.Len; i++ {
		if table[i] < 0 || exact[i] < 0 {
			continue
		}
		after, left := sp.Len-(i+1)*kv.PageCells, p.window.Leaves(i)-sp.Len
		if left >= p.steps && after > 0 {
			break // this page and later ones are exact for longer
		}
		if p.selfCalibrated && sp.Len < layout.SelfRows {
			continue // the calibration is not complete yet
		}
		from, to := int(p.packed[table[i]]), min(max(p.steps-left, 0), p.steps)
		now := left < 0 || after < sp.Rows
		p.packed[table[i]] = int32(max(from, to))
		if k := slices.IndexFunc(dst, func(x llm.Pack) bool { return x.Page == table[i] }); k >= 0 {
			dst[k].To, dst[k].Now = max(dst[k].To, to), dst[k].Now || now
			continue
		}
		if to <= from {
			continue
		}
		dst = append(dst, llm.Pack{Seq: sp.Seq, Page: table[i], Exact: exact[i], From: from, To: to, Of: p.steps, Now: now})
	}
	return dst
}

// unpacked returns the number of pages at the end of a sequence that are not packed
// yet in all layers.
func (c *Cache) unpacked(s *sequence, g int) int {
	p := &c.exact[g]
	for i, page := range s.exact[g] {
		if p.packedByPage && page >= 0 && int(p.packed[s.tables[g][i]]) < p.steps {
			return len(s.exact[g]) - i
		}
	}
	return 0
}
