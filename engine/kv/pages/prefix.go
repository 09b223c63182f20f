package pages

import (
	"encoding/json"
	"fmt"
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// Pieces of a sequence, which other sequences with the same beginning can adopt, in
// this process or a later one. There are two kinds of pieces. Pages are whole pages
// of a group in packed form, and with a budget in exact form too (Parts). Points are
// what a row at one position reads in addition to pages.
//
// A point holds the exact rows that a row there reads, the rows after the last
// whole page, the conversation's self-calibration, and the recurrent states. Models
// that need none of this can continue at every page border and have no points.
//
// The bytes of a piece depend only on the text up to the end of its page, except if
// conversations calibrate themselves. The calibration reads more than the first
// page, so texts that differ only from the second page on have different bytes in
// the first page. In this case the first page is part of the points.

// Kept describes a stored prefix of a text.
type Kept interface {
	Pages() int              // number of whole pages, counted from the first
	Has(page, part int) bool // reports whether a part of a page is stored
	Points() []int           // positions of points, ascending
}

// HasPoints reports whether a sequence can be continued only at points.
func (c *Cache) HasPoints() bool { return c.states.on() || c.hasExact() }

// firstPiece returns the first page of a group that is a piece by itself.
func (c *Cache) firstPiece(g int) int {
	if c.exact[g].selfCalibrated {
		return (layout.SelfRows - 1) / kv.PageCells // the calibration ends inside this page
	}
	return 0
}

// IsPiece reports whether a part of a page is a piece by itself.
func (c *Cache) IsPiece(part, page int) bool {
	g, _ := c.part(part)
	return page >= c.firstPiece(g)
}

// tail returns the first page whose rows are part of a point at pos.
func (c *Cache) tail(g, pos int) int {
	whole := pos / kv.PageCells
	if p := &c.exact[g]; p.packedByPage {
		return min(whole, p.window.FirstExact(pos))
	}
	return whole
}

// Longest returns the largest position up to most from which k can be continued, or
// 0.
func (c *Cache) Longest(k Kept, most int) int {
	run := make([]int, len(c.pools)) // number of leading pages stored for the group
	for g := range c.pools {
		run[g] = c.firstPiece(g)
		for c.pools[g].window == 0 && run[g] < k.Pages() && k.Has(run[g], g) {
			run[g]++
		}
	}
	fits := func(pos int) bool {
		if pos > most || pos/kv.PageCells > k.Pages() {
			return false
		}
		for part := range c.Parts() {
			from, to := c.Needed(part, pos)
			if !c.windowed(part) {
				if part < len(run) && to > run[part] {
					return false
				}
				continue
			}
			for i := to - 1; i >= from; i-- {
				if !k.Has(i, part) {
					return false
				}
			}
		}
		return true
	}
	if c.HasPoints() {
		for _, pos := range slices.Backward(k.Points()) {
			if fits(pos) {
				return pos
			}
		}
		return 0
	}
	for pos := min(most/kv.PageCells, k.Pages()) * kv.PageCells; pos > 0; pos -= kv.PageCells {
		if fits(pos) {
			return pos
		}
	}
	return 0
}

// Continues returns the positions of a sequence for which PointData returns a
// point: the last page borders of its prompt and of the whole sequence, its
// checkpoints, and the positions where other prompts diverged. It is empty for
// models without points.
func (c *Cache) Continues(seq llm.Seq) (list []int) {
	s, err := c.seq(seq)
	if err != nil || !c.HasPoints() {
		return nil
	}
	c.settle(s)
	for _, q := range s.points {
		if q.parted {
			list = append(list, q.pos)
		}
	}
	list = append(list, s.keep, s.len/kv.PageCells*kv.PageCells)
	for _, m := range s.marks {
		list = append(list, m.pos)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(pos int) bool { return !c.continues(s, pos) })
}

// continues reports whether a point can be made at pos.
func (c *Cache) continues(s *sequence, pos int) bool {
	return pos > 0 && pos <= s.len && (c.states.on() || pos%kv.PageCells == 0) && c.readable(s, pos) && (!c.states.on() || s.marked(pos))
}

// Identity hashes everything in the layout and the model that determines what the
// bytes of a sequence mean.
func (c *Cache) Identity() ([]byte, error) {
	h := c.header(&sequence{first: make([]int, len(c.pools)), exact: make([][]int32, len(c.pools))})
	tempers, span, first := make([]kv.Temper, len(c.layout.Layers)), 0, 0
	for g := range c.pools {
		first = max(first, c.firstPiece(g))
	}
	for i := range c.layout.Layers {
		tempers[i] = c.layout.Layers[i].Temper
		if c.layout.Layers[i].K.SelfCalibrated {
			span = c.layout.Settings.Span // the calibration of a conversation depends on the span
		}
	}
	return json.Marshal(struct {
		Header  *sessionHeader
		Tempers []kv.Temper
		Span    int
		First   int `json:"Own,omitempty"` // number of first pages that are part of points
	}{h, tempers, span, first})
}

// Windowed lists the parts that are given back while a sequence grows.
func (c *Cache) Windowed() (list []int) {
	for part := range c.Parts() {
		if c.windowed(part) {
			list = append(list, part)
		}
	}
	return list
}

// pageRow is called for each row of a piece. len(buf) is the row's size.
type pageRow func(size, layer int, side kv.Side, tier layout.Tier, cell int32) error

// eachOwner calls f for both sides of every layer with cells in a group.
func (c *Cache) eachOwner(g int, f func(i int, s kv.Side, x *layout.Side) error) error {
	for _, i := range c.layout.Groups[g].Layers {
		for _, s := range []kv.Side{kv.K, kv.V} {
			if err := f(i, s, c.layout.Layers[i].Side(s)); err != nil {
				return fmt.Errorf("layer %d %v: %w", c.layout.Layers[i].Layer, s, err)
			}
		}
	}
	return nil
}

// walkPage visits the rows of a page: the packed rows, and for the first page also
// the pinned ones.
func (c *Cache) walkPage(seq llm.Seq, part, page int, row pageRow) error {
	g, exact := c.part(part)
	if exact {
		return c.walkExact(seq, g, page, row)
	}
	return c.eachOwner(g, func(i int, s kv.Side, x *layout.Side) error {
		for pos := page * kv.PageCells; pos < (page+1)*kv.PageCells && x.RowBytes > 0; pos++ {
			if err := row(x.RowBytes, i, s, layout.Packed, c.Cell(g, seq, pos)); err != nil {
				return err
			}
		}
		if page > 0 || c.firstPiece(g) > 0 || c.pools[g].window > 0 && c.HasPoints() {
			return nil
		}
		return c.walkPinned(seq, g, kv.PageCells, i, s, x, row)
	})
}

// walkPinned visits the pinned rows of one side among the first n positions. They
// are part of the first page. They are part of the point instead if the point can
// exist without the first page (in groups with a window, or near the beginning), or
// if the first page is not a piece.
func (c *Cache) walkPinned(seq llm.Seq, g, n, i int, s kv.Side, x *layout.Side, row pageRow) error {
	if x.PinnedRow == 0 {
		return nil
	}
	for pos := range min(n, c.layout.Groups[g].Exact.Pinned) {
		if err := row(x.PinnedRow, i, s, layout.Pinned, c.PinnedCell(g, seq, pos)); err != nil {
			return err
		}
	}
	return nil
}

// walkPoint visits the rows of a point.
func (c *Cache) walkPoint(seq llm.Seq, pos int, row pageRow) error {
	for g := range c.pools {
		tail, exact := c.tail(g, pos)*kv.PageCells, pos
		first := min(c.firstPiece(g)*kv.PageCells, tail)
		if p := &c.exact[g]; p.on() {
			exact = p.window.FirstExact(pos) * kv.PageCells
		}
		err := c.eachOwner(g, func(i int, s kv.Side, x *layout.Side) error {
			for at := visible(pos, c.pools[g].window) * kv.PageCells; at < first && x.RowBytes > 0; at++ {
				if err := row(x.RowBytes, i, s, layout.Packed, c.Cell(g, seq, at)); err != nil {
					return err
				}
			}
			for at := tail; at < pos && x.RowBytes > 0 && !x.PackedByPage(); at++ {
				if err := row(x.RowBytes, i, s, layout.Packed, c.Cell(g, seq, at)); err != nil {
					return err
				}
			}
			for at := exact; at < pos && x.ExactRow > 0; at++ {
				if c.exactPart(g, at/kv.PageCells, pos) {
					continue
				}
				if err := row(x.ExactRow, i, s, layout.Exact, c.ExactCell(g, seq, at)); err != nil {
					return err
				}
			}
			if x.SelfRow > 0 {
				if err := row(x.SelfRow, i, s, layout.Measured, int32(seq)); err != nil {
					return err
				}
			}
			if tail > 0 && c.firstPiece(g) == 0 && c.pools[g].window == 0 {
				return nil
			}
			return c.walkPinned(seq, g, pos, i, s, x, row)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reads returns a pageRow that appends rows to data.
func reads(data *[]byte, rows Rows) pageRow {
	return func(size, layer int, side kv.Side, tier layout.Tier, cell int32) error {
		n := len(*data)
		*data = slices.Grow(*data, size)[:n+size]
		return rows.ReadRow((*data)[n:], layer, side, tier, cell)
	}
}

// writes returns a pageRow that takes rows from data.
func writes(data *[]byte, rows Rows) pageRow {
	return func(size, layer int, side kv.Side, tier layout.Tier, cell int32) error {
		if len(*data) < size {
			return fmt.Errorf("%w: a piece is too short", ErrSession)
		}
		row := (*data)[:size]
		*data = (*data)[size:]
		return refused(rows.WriteRow(layer, side, tier, cell, row))
	}
}

// PageBytes returns the size of a part of a page.
func (c *Cache) PageBytes(part, page int) (n int) {
	_ = c.walkPage(0, part, page, func(size, _ int, _ kv.Side, _ layout.Tier, _ int32) error { n += size; return nil })
	return n
}

// PageData returns a part of a whole page of a sequence. It returns nil if the
// page is not a piece, if its rows are missing or not packed yet, or if they do
// not belong to a prompt that was read from its beginning.
func (c *Cache) PageData(seq llm.Seq, part, page int, rows Rows) ([]byte, error) {
	s, err := c.seq(seq)
	if err != nil {
		return nil, err
	}
	g, exact := c.part(part)
	if !c.IsPiece(part, page) || (page+1)*kv.PageCells > s.len || s.moved || s.tables[g][page] < 0 {
		return nil, nil
	}
	if exact && (!c.exact[g].on() || s.exact[g][page] < 0) {
		return nil, nil
	}
	if p := &c.exact[g]; !exact && p.packedByPage && s.exact[g][page] >= 0 && int(p.packed[s.tables[g][page]]) < p.steps {
		return nil, nil
	}
	data := make([]byte, 0, c.PageBytes(part, page))
	if err := c.walkPage(seq, part, page, reads(&data, rows)); err != nil {
		return nil, fmt.Errorf("kv: page %d of sequence %d: %w", page, seq, err)
	}
	return data, nil
}

// PointData returns the point at a position from Continues, and nil for other
// positions.
func (c *Cache) PointData(seq llm.Seq, pos int, rows Rows) ([]byte, error) {
	s, err := c.seq(seq)
	if err != nil {
		return nil, err
	}
	states, err := c.stateRows(rows)
	if err != nil || !c.HasPoints() || !c.continues(s, pos) {
		return nil, err
	}
	data := []byte{}
	if err := c.walkPoint(seq, pos, reads(&data, rows)); err != nil {
		return nil, fmt.Errorf("kv: point %d of sequence %d: %w", pos, seq, err)
	}
	for _, m := range s.marks {
		if m.pos != pos {
			continue
		}
		for i := range c.layout.Layers {
			n := len(data)
			size := int(c.layout.Layers[i].StateBytes)
			if size == 0 {
				continue
			}
			data = slices.Grow(data, size)[:n+size]
			if err := states.ReadState(data[n:], i, m.slot); err != nil {
				return nil, fmt.Errorf("kv: point %d of sequence %d: %w", pos, seq, err)
			}
		}
	}
	return data, nil
}

// Adopt empties a sequence and fills it with the pages and the point of a text up
// to pos, a result of Longest. page returns the pieces. After an error the sequence
// is empty. ErrFull reports that there are not enough cells.
func (c *Cache) Adopt(seq llm.Seq, pos int, page func(page, part int) ([]byte, error), point []byte, rows Rows) error {
	s, err := c.seq(seq)
	if err != nil {
		return err
	}
	c.Drop(seq)
	if err := c.adopt(seq, s, pos, page, point, rows); err != nil {
		c.Drop(seq)
		return fmt.Errorf("kv: sequence %d adopts %d positions: %w", seq, pos, err)
	}
	return nil
}

func (c *Cache) adopt(seq llm.Seq, s *sequence, pos int, page func(page, part int) ([]byte, error), point []byte, rows Rows) error {
	if pos <= 0 || !c.states.on() && pos%kv.PageCells != 0 {
		return fmt.Errorf("%w: not a position to continue at", ErrSession)
	}
	states, err := c.stateRows(rows)
	if err != nil {
		return err
	}
	if err := c.seat(seq, s, pos); err != nil {
		return err
	}
	for part := range c.Parts() {
		from, to := c.Needed(part, pos)
		for i := from; i < to; i++ {
			data, err := page(i, part)
			if err == nil && len(data) != c.PageBytes(part, i) {
				err = fmt.Errorf("%w: page %d has %d bytes", ErrSession, i, len(data))
			}
			if err == nil {
				err = c.walkPage(seq, part, i, writes(&data, rows))
			}
			if err != nil {
				return err
			}
		}
	}
	if !c.HasPoints() {
		return nil
	}
	if err := c.walkPoint(seq, pos, writes(&point, rows)); err != nil {
		return err
	}
	for i := range c.layout.Layers {
		size := int(c.layout.Layers[i].StateBytes)
		if size > len(point) {
			return fmt.Errorf("%w: a point is too short", ErrSession)
		}
		if size > 0 {
			if err := states.WriteState(i, c.State(seq), point[:size]); err != nil {
				return err
			}
			point = point[size:]
		}
	}
	if len(point) > 0 {
		return fmt.Errorf("%w: a point is %d bytes too long", ErrSession, len(point))
	}
	if c.states.on() {
		return c.Checkpoint(seq)
	}
	c.point(s, pos, false)
	return nil
}

// seat gives an empty sequence of pos positions the pages that rows from pos on
// read.
func (c *Cache) seat(seq llm.Seq, s *sequence, pos int) error {
	c.settleAll()
	c.touch(s)
	pages := (pos + kv.PageCells - 1) / kv.PageCells
	for g := range c.pools {
		p, first := &c.pools[g], visible(pos, c.pools[g].window)
		if need := pages - first; pages > cap(s.tables[g]) || need > len(p.free) && !c.reclaim(g, need) {
			return fmt.Errorf("%w: %d cells, %d of %d free", ErrFull, pos, len(p.free)*kv.PageCells, len(p.refs)*kv.PageCells)
		}
		for len(s.tables[g]) < pages {
			page := int32(-1)
			if len(s.tables[g]) >= first {
				page = p.alloc()
			}
			s.tables[g] = append(s.tables[g], page)
		}
		s.first[g] = first
		if err := c.seatExact(s, g, pos); err != nil {
			return err
		}
	}
	s.len, s.keep = pos, 0
	return nil
}

// seatExact gives a sequence the exact pages of a group that a row at pos reads.
func (c *Cache) seatExact(s *sequence, g, pos int) error {
	p := &c.exact[g]
	if !p.on() {
		return nil
	}
	first, tail := p.window.FirstExact(pos), c.tail(g, pos)
	if err := c.exactFree(g, max(len(s.tables[g])-first, 0)); err != nil {
		return err
	}
	for i, page := range s.tables[g] {
		exact := int32(-1)
		if i >= first {
			exact = c.takeExact(g)
		}
		s.exact[g] = append(s.exact[g], exact)
		if page >= 0 {
			p.packed[page] = 0
			if i < tail {
				p.packed[page] = int32(p.steps)
			}
		}
	}
	s.low[g] = p.window.FirstKept(pos)
	return nil
}
