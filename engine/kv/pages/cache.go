// Package pages tracks which page of a layout's pools holds which positions of which
// sequence: packed and exact pages, recurrent states, points to continue from, and
// saved sequences. It holds no cells. Package kv has the glossary.
package pages

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// ErrFull is the class of errors about a cache without enough free pages.
var ErrFull = errors.New("kv: cache is full")

// ErrSequence is the class of errors about a sequence number out of range.
var ErrSequence = errors.New("kv: no such sequence")

// Copier copies cells and states inside a backend's memory, on the cache's behalf.
type Copier interface {
	// CopyCells copies n cells of a tier from cell src to cell dst, in every layer
	// of a group and on both sides.
	CopyCells(group int, tier layout.Tier, dst, src int32, n int) error
	// CopyState copies a recurrent state slot, in every layer.
	CopyState(dst, src int32) error
}

// Options of New. The zero value allocates pages in ascending order and fits
// models that need no copies.
type Options struct {
	Copier  Copier
	Shuffle *rand.Rand // for tests: allocate pages in random order
	Model   [32]byte   // identity of the model, for saved sequences
}

// Cache tracks pages, sequences and recurrent states. It holds no cells. Only the
// goroutine that owns the device may use it.
//
// A page is PageCells consecutive positions of one sequence in every layer of a
// group. Sequences share pages after Fork, and a shared page is copied before the
// first write into it. When the pool of a window group runs out, it takes back
// pages that no later row can see, starting with the least recently used sequence.
type Cache struct {
	layout *layout.Layout
	pools  []pool
	exact  []exactPool // exact pages of each pool
	filled bool        // since the last Extend
	seqs   []sequence
	states states
	copier Copier
	model  [32]byte
	clock  uint64
	stamp  uint64 // number of page counts so far
}

// pool is the set of pages of one group.
type pool struct {
	window int
	refs   []int32  // number of sequences that hold each page
	free   []int32  // free pages, used as a stack
	stamps []uint64 // for each page, the last count that included it
}

// sequence is the pages of one sequence.
type sequence struct {
	len    int
	used   uint64    // time of the last Extend, Fork or Truncate
	tables [][]int32 // [group] pages in position order, -1 for pages that were given back
	first  []int     // [group] index of the first page that is held
	marks  []mark    // checkpoints of the recurrent state, ascending

	exact [][]int32 // [group] exact pages, -1 for pages without one; empty without an exact window
	view  [][]int32 // [group] exact pages as one batch sees them, including passing pages
	low   []int     // [group] before this page, only points and the end of the prompt have exact pages
	keep  int       // last page border before the end of the prompt

	points []point // positions whose exact pages are kept while there is room, ascending
	moved  bool    // rows were moved and encoded again
	grown  bool    // the sequence was extended since the last batch ran
}

// New makes an empty cache for the pools in l.
func New(l *layout.Layout, o Options) (*Cache, error) {
	seqs := max(l.Settings.Seqs, 1)
	all := (l.Settings.Cells + kv.PageCells - 1) / kv.PageCells
	if all <= 0 {
		return nil, fmt.Errorf("kv: a cache of %d cells holds nothing", l.Settings.Cells)
	}
	c := &Cache{layout: l, copier: o.Copier, model: o.Model, seqs: make([]sequence, seqs)}
	for i := range l.Groups {
		c.pools = append(c.pools, newPool(&l.Groups[i], o.Shuffle))
		c.exact = append(c.exact, newExactPool(&l.Groups[i]))
	}
	for i := range c.seqs {
		s := &c.seqs[i]
		s.first = make([]int, len(c.pools))
		s.tables = make([][]int32, len(c.pools))
		s.low = make([]int, len(c.pools))
		s.exact, s.view = make([][]int32, len(c.pools)), make([][]int32, len(c.pools))
		for g := range s.tables {
			s.tables[g] = make([]int32, 0, all)
			if c.exact[g].on() {
				s.exact[g], s.view[g] = make([]int32, 0, all), make([]int32, 0, all)
			}
		}
	}
	c.states = newStates(l, seqs)
	return c, nil
}

func newPool(g *layout.Group, shuffle *rand.Rand) pool {
	p := pool{window: g.Window, refs: make([]int32, g.Pages), free: make([]int32, g.Pages), stamps: make([]uint64, g.Pages)}
	for i := range p.free {
		p.free[i] = int32(g.Pages - 1 - i)
	}
	if shuffle != nil {
		shuffle.Shuffle(g.Pages, func(i, j int) { p.free[i], p.free[j] = p.free[j], p.free[i] })
	}
	return p
}

func (p *pool) alloc() int32 {
	page := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[page] = 1
	return page
}

func (p *pool) release(page int32) {
	if p.refs[page]--; p.refs[page] == 0 {
		p.free = append(p.free, page)
	}
}

// Layout returns the layout for which the cache was made.
func (c *Cache) Layout() *layout.Layout { return c.layout }

// Seqs is the number of sequences.
func (c *Cache) Seqs() int { return len(c.seqs) }

func (c *Cache) seq(seq llm.Seq) (*sequence, error) {
	if seq < 0 || int(seq) >= len(c.seqs) {
		return nil, fmt.Errorf("%w: %d of %d", ErrSequence, seq, len(c.seqs))
	}
	return &c.seqs[seq], nil
}

// Len returns the number of positions of a sequence, or 0 for an invalid sequence
// number.
func (c *Cache) Len(seq llm.Seq) int {
	if s, err := c.seq(seq); err == nil {
		return s.len
	}
	return 0
}

// Extend makes room for n more positions of a sequence. If it returns ErrFull, the
// sequence is unchanged. In a window group n may be at most the layout's UBatch.
func (c *Cache) Extend(seq llm.Seq, n int) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("kv: cannot extend sequence %d by %d positions", seq, n)
	}
	c.newBatch()
	c.settle(s)
	c.touch(s)
	if layout.PagesOf(s.len+n) > layout.PagesOf(s.len) {
		if err := c.bound(seq, s, n); err != nil {
			return err
		}
	}
	for g := range c.pools {
		if err := c.reserve(seq, s, g, n); err != nil {
			return err
		}
		if err := c.exactRoom(s, g, n); err != nil {
			return err
		}
	}
	if n == 0 {
		return nil
	}
	if err := c.unshare(s); err != nil {
		return err
	}
	c.rewrite(s)
	s.len += n
	for g := range c.pools {
		for len(s.tables[g])*kv.PageCells < s.len {
			s.tables[g] = append(s.tables[g], c.pools[g].alloc())
		}
	}
	c.grow(s)
	s.grown = true
	return nil
}

// reserve frees enough pages of group g to extend s by n.
func (c *Cache) reserve(seq llm.Seq, s *sequence, g, n int) error {
	p := &c.pools[g]
	need := (s.len+n+kv.PageCells-1)/kv.PageCells - len(s.tables[g])
	if n > 0 && s.shared(p, g) {
		need++
	}
	if (s.len+n+kv.PageCells-1)/kv.PageCells > cap(s.tables[g]) || need > len(p.free) && !c.reclaim(g, need) {
		return fmt.Errorf("%w: sequence %d wants %d cells after %d, %d of %d free",
			ErrFull, seq, n, s.len, len(p.free)*kv.PageCells, len(p.refs)*kv.PageCells)
	}
	return nil
}

// shared reports whether the last page of s is partly filled and another sequence
// also holds it.
func (s *sequence) shared(p *pool, g int) bool {
	t := s.tables[g]
	return s.len%kv.PageCells != 0 && p.refs[t[len(t)-1]] > 1
}

// unshare gives s its own copy of a shared last page before rows are written to it.
func (c *Cache) unshare(s *sequence) error {
	for g := range c.pools {
		p := &c.pools[g]
		if !s.shared(p, g) {
			continue
		}
		t := s.tables[g]
		old, page := t[len(t)-1], p.alloc()
		err := c.copyCells(g, layout.Packed, page*kv.PageCells, old*kv.PageCells, s.len%kv.PageCells)
		if err == nil {
			err = c.copyExact(s, g, len(t)-1, page, s.len%kv.PageCells)
		}
		if err != nil {
			p.release(page)
			return err
		}
		p.release(old)
		t[len(t)-1] = page
	}
	return nil
}

func (c *Cache) copyCells(g int, tier layout.Tier, dst, src int32, n int) error {
	if c.copier == nil {
		return errors.New("kv: a shared page or sink needs a copy and the cache has no Copier")
	}
	return c.copier.CopyCells(g, tier, dst, src, n)
}

// visible returns the first page that a row of s can see if it is at or after
// the last page border. reclaim must not take that page or later ones. The
// window is counted from the border, not from the end of the sequence, so that
// a sequence can always be cut back to a multiple of PageCells.
func (s *sequence) visible(window int) int { return visible(s.len, window) }

// visible returns the first page that a row can see if it is at or after the last
// page border before pos.
func visible(pos, window int) int {
	if window == 0 {
		return 0
	}
	return max(pos/kv.PageCells*kv.PageCells-window+1, 0) / kv.PageCells
}

// reclaim gives back pages that no later row can see until need pages are free,
// starting with the least recently used sequence. It reports whether enough pages
// are free.
func (c *Cache) reclaim(g, need int) bool {
	p := &c.pools[g]
	if p.window == 0 {
		return false
	}
	for len(p.free) < need {
		var oldest *sequence
		for i := range c.seqs {
			s := &c.seqs[i]
			if s.first[g] < s.visible(p.window) && (oldest == nil || s.used < oldest.used) {
				oldest = s
			}
		}
		if oldest == nil {
			return false
		}
		i := oldest.first[g]
		p.release(oldest.tables[g][i])
		oldest.drop(&c.exact[g], g, i)
		oldest.tables[g][i] = -1
		oldest.first[g]++
		c.lapse(oldest)
	}
	return true
}

func (c *Cache) touch(s *sequence) {
	c.clock++
	s.used = c.clock
}

// Truncate cuts a sequence to pos positions and returns the position reached. The
// result is smaller than pos if the recurrent state can only rewind to a checkpoint
// or if the exact form of pages is gone (see readable). It is 0 if a window no
// longer holds what a row at pos sees.
func (c *Cache) Truncate(seq llm.Seq, pos int) (int, error) {
	s, err := c.seq(seq)
	if err != nil {
		return 0, err
	}
	if pos < 0 {
		return s.len, fmt.Errorf("kv: cannot cut sequence %d to %d positions", seq, pos)
	}
	c.settle(s)
	to, m := c.reach(s, pos)
	c.touch(s)
	if m != nil {
		if err := c.copyState(int32(seq), m.slot); err != nil {
			return s.len, err
		}
		c.states.used[m.slot] = c.clock
	}
	c.cut(s, to)
	return to, nil
}

// cut releases the pages at and after pos.
func (c *Cache) cut(s *sequence, pos int) {
	keep := (pos + kv.PageCells - 1) / kv.PageCells
	for g := range c.pools {
		t := s.tables[g]
		for i := max(keep, s.first[g]); i < len(t); i++ {
			c.pools[g].release(t[i])
		}
		s.tables[g] = t[:min(keep, len(t))]
		s.first[g] = min(s.first[g], len(s.tables[g]))
	}
	c.cutExact(s, keep, pos)
	s.len = min(s.len, pos)
	c.states.cut(s, pos)
}

// Drop empties a sequence.
func (c *Cache) Drop(seq llm.Seq) {
	if s, err := c.seq(seq); err == nil {
		c.cut(s, 0)
	}
}

// Fork empties dst and makes it a copy of the first pos positions of src. It
// returns the position reached, which is what Reach returns. The two share
// pages.
func (c *Cache) Fork(dst, src llm.Seq, pos int) (int, error) {
	d, err := c.seq(dst)
	if err != nil {
		return 0, err
	}
	s, err := c.seq(src)
	if err != nil {
		return 0, err
	}
	if dst == src || pos < 0 {
		return 0, fmt.Errorf("kv: cannot fork sequence %d to %d at position %d", src, dst, pos)
	}
	c.cut(d, 0)
	c.settle(s)
	to, m := c.reach(s, pos)
	if c.calibrating(to) {
		to, m = 0, nil
	}
	if c.states.on() && to > 0 {
		from := int32(src)
		if m != nil {
			from = m.slot
			c.states.used[m.slot] = c.clock
		}
		if err := c.copyState(int32(dst), from); err != nil {
			return 0, err
		}
	}
	for g := range c.pools {
		t := s.tables[g][:(to+kv.PageCells-1)/kv.PageCells]
		d.tables[g] = append(d.tables[g], t...)
		d.first[g] = min(s.first[g], len(t))
		for _, page := range t[d.first[g]:] {
			c.pools[g].refs[page]++
		}
	}
	d.len = to
	if err := c.forkExact(d, s, dst, src, to); err != nil {
		c.cut(d, 0)
		return 0, err
	}
	c.states.share(d, s, to)
	c.touch(s)
	c.touch(d)
	return to, nil
}

// Free returns the number of cells by which sequences can still grow without
// dropping another one. Windows never run out. If all layers have windows, Free
// returns the whole context.
func (c *Cache) Free() int {
	free := c.layout.Settings.Cells
	for g := range c.pools {
		if p := &c.pools[g]; p.window == 0 {
			free = len(p.free) * kv.PageCells
		}
	}
	return free
}

// Cell returns the cell of a position of a sequence in a group, or -1 if the cell
// was given back or does not exist.
func (c *Cache) Cell(group int, seq llm.Seq, pos int) int32 {
	s, err := c.seq(seq)
	if err != nil || pos < 0 || pos >= s.len {
		return -1
	}
	return cellOf(s.tables[group], pos)
}

// ExactCell returns the cell of the exact form of a position in a group, or -1 if
// it has none.
func (c *Cache) ExactCell(group int, seq llm.Seq, pos int) int32 {
	s, err := c.seq(seq)
	if err != nil || pos < 0 || pos >= s.len || !c.exact[group].on() {
		return -1
	}
	return cellOf(s.exact[group], pos)
}

// PinnedCell returns the cell of a position among the pinned rows of a sequence, or
// -1 if the position is not pinned.
func (c *Cache) PinnedCell(group int, seq llm.Seq, pos int) int32 {
	n := c.layout.Groups[group].Exact.Pinned
	if s, err := c.seq(seq); err != nil || pos < 0 || pos >= min(s.len, n) {
		return -1
	}
	return int32(int(seq)*n + pos)
}

func cellOf(table []int32, pos int) int32 {
	page := table[pos/kv.PageCells]
	if page < 0 {
		return -1
	}
	return page*kv.PageCells + int32(pos%kv.PageCells)
}
