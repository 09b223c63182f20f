package gpu

import (
	"fmt"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// cache is the memory of all layers' cells. A page holds encoded bytes. All
// cells of the first KV head come first, followed by all cells of the next KV
// head, and so on.
type cache struct {
	layers []*layerCache // by layer number; nil for a layer without a cache
	groups [][]*layerCache
	beside [2]Buffer // per side: pinned rows, private exact pages, passing exact pages
	cells  []byte    // cells of one KV head while they are copied
}

// layerCache holds K and V of one layer.
type layerCache struct {
	group   int
	kvHeads int
	layout  *layout.Layer
	self    *selfCalibration // calibrations of the conversations; nil if they do not calibrate themselves
	sides   [2]side
}

// side is K or V of a layer. Its buffers are nil if V is a view of K.
type side struct {
	packed, exact, pinned cells
	passing               int64 // offset of the passing pages from the first exact page
}

// cells is one tier of a side, divided into pages.
type cells struct {
	buffer  Buffer // nil if there are no cells
	at      int64  // offset of the first cell
	head    int    // bytes of one head of one cell
	page    int    // cells per page
	private int    // number of private pages, which come before the passing pages
}

// tier returns the cells of a tier. It returns empty cells for tiers that
// devices do not hold.
func (s *side) tier(p layout.Tier) *cells {
	switch p {
	case layout.Exact:
		return &s.exact
	case layout.Pinned:
		return &s.pinned
	case layout.Packed:
		return &s.packed
	}
	return new(cells)
}

// at returns the offset of one KV head of a cell.
func (l *layerCache) at(c *cells, cell int32, head int) int64 {
	page, in := int64(cell)/int64(c.page), int64(cell)%int64(c.page)
	return c.at + ((page*int64(l.kvHeads)+int64(head))*int64(c.page)+in)*int64(c.head)
}

// newCache allocates the cells of the layout.
func (p *program) newCache() error {
	l := p.layout
	c := &cache{layers: make([]*layerCache, len(l.Layers)), groups: make([][]*layerCache, len(l.Groups))}
	p.cache = c
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		lc := &layerCache{group: y.Group, kvHeads: y.KVHeads, layout: y}
		for s := range lc.sides {
			sl := y.Side(kv.Side(s))
			if sl.View {
				continue
			}
			pages := p.sizes.Pages[y.Group]
			d := cells{head: sl.Active.RowBytes(sl.HeadDim), page: kv.PageCells, private: pages}
			size := int64(pages) * kv.PageCells * int64(y.KVHeads*d.head)
			var err error
			if d.buffer, err = p.dev.Alloc(max(size, imageAlign), nil, fmt.Sprintf("%v of layer %d", kv.Side(s), i)); err != nil {
				return fmt.Errorf("cache of %d pages, %d bytes in layer %d: %w", pages, size, i, err)
			}
			p.buffers = append(p.buffers, d.buffer)
			p.used.Cache += d.buffer.Size()
			lc.sides[s].packed = d
		}
		if y.K.SelfCalibrated {
			var err error
			if lc.self, err = p.newSelfCalibration(y); err != nil {
				return fmt.Errorf("calibrations of %d conversations in layer %d: %w", max(p.layout.Settings.Seqs, 1), i, err)
			}
		}
		c.layers[i] = lc
		c.groups[y.Group] = append(c.groups[y.Group], lc)
	}
	for i := range l.Layers {
		if from := l.Layers[i].Share; from >= 0 && c.layers[i] == nil {
			c.layers[i] = c.layers[from]
		}
	}
	for s := range c.beside {
		if err := p.newBeside(kv.Side(s)); err != nil {
			return err
		}
	}
	for _, g := range c.groups {
		for _, lc := range g {
			for s := range lc.sides {
				for _, tier := range []layout.Tier{layout.Packed, layout.Exact, layout.Pinned} {
					d := lc.sides[s].tier(tier)
					c.cells = append(c.cells, make([]byte, max(0, d.page*d.head-len(c.cells)))...)
				}
			}
		}
	}
	return nil
}

// newBeside allocates the exact tiers of one side of all layers: the pinned
// rows of every layer, the private exact pages of every layer, and the passing
// pages.
func (p *program) newBeside(s kv.Side) error {
	var size int64
	room := func(n int64) (at int64) {
		at = size
		size += (n + imageAlign - 1) / imageAlign * imageAlign
		return at
	}
	owners := p.cache.owners()
	for _, lc := range owners {
		y := lc.layout
		if x := y.Side(s); x.Pinned != nil {
			lc.sides[s].pinned = cells{head: x.PinnedRow / y.KVHeads, page: y.Exact.Pinned, at: room(int64(max(p.layout.Settings.Seqs, 1) * y.Exact.Pinned * x.PinnedRow))}
		}
	}
	for _, lc := range owners {
		y := lc.layout
		if x := y.Side(s); x.Exact != nil {
			n := p.layout.ExactPrivate(y)
			lc.sides[s].exact = cells{head: x.ExactRow / y.KVHeads, page: kv.PageCells, private: n, at: room(int64(n * kv.PageCells * x.ExactRow))}
		}
	}
	passing := room(p.layout.Passing[s])
	if size == 0 {
		return nil
	}
	b, err := p.alloc(size, fmt.Sprintf("exact %v", s))
	if err != nil {
		return fmt.Errorf("exact pages and sinks, %d bytes: %w", size, err)
	}
	p.used.Scratch -= b.Size()
	p.used.Cache += b.Size()
	p.cache.beside[s] = b
	for _, lc := range owners {
		d := &lc.sides[s]
		d.passing = passing - d.exact.at
		for _, c := range []*cells{&d.pinned, &d.exact} {
			if c.head > 0 {
				c.buffer = b
			}
		}
	}
	return nil
}

// owners returns the layers that have their own cells.
func (c *cache) owners() (list []*layerCache) {
	for _, g := range c.groups {
		list = append(list, g...)
	}
	return list
}

func (c *cache) layer(i int) (*layerCache, error) {
	if i < 0 || i >= len(c.layers) || c.layers[i] == nil {
		return nil, fmt.Errorf("gpu: layer %d has no cache in the layout", i)
	}
	return c.layers[i], nil
}

// cells returns a tier of one side of a layer.
func (p *program) cells(layer int, s kv.Side, tier layout.Tier) (*layerCache, *cells, error) {
	l, err := p.cache.layer(layer)
	if err != nil {
		return nil, nil, err
	}
	c := l.sides[s].tier(tier)
	if c.buffer == nil {
		return nil, nil, fmt.Errorf("gpu: layer %d has no cells of %v in tier %d", layer, s, tier)
	}
	return l, c, nil
}

// RowBytes returns the size of an allocated row of all KV heads.
func (p *program) RowBytes(layer int, s kv.Side, tier layout.Tier) int {
	if tier == layout.Measured {
		if l, err := p.cache.layer(layer); err != nil || l.self == nil || s != kv.K {
			return 0
		}
		return p.cache.layers[layer].layout.K.SelfRow
	}
	l, c, err := p.cells(layer, s, tier)
	if err != nil {
		return 0
	}
	return l.kvHeads * c.head
}

// ReadRow copies the KV heads of a cell to dst as encoded bytes.
func (p *program) ReadRow(dst []byte, layer int, s kv.Side, tier layout.Tier, cell int32) error {
	if tier == layout.Measured {
		_, err := p.measuredRow(layer, s, dst, cell, func(o *layout.SelfCalibration, part []byte) error {
			o.Get(part)
			return nil
		})
		return err
	}
	l, c, err := p.cells(layer, s, tier)
	for h := 0; err == nil && h < l.kvHeads; h++ {
		err = p.dev.Download(dst[h*c.head:(h+1)*c.head], c.buffer, l.at(c, cell, h))
	}
	return err
}

// WriteRow is the inverse of ReadRow.
func (p *program) WriteRow(layer int, s kv.Side, tier layout.Tier, cell int32, src []byte) error {
	if tier == layout.Measured {
		o, err := p.measuredRow(layer, s, src, cell, (*layout.SelfCalibration).Put)
		if err == nil {
			err = p.upload(o, cell)
		}
		return err
	}
	l, c, err := p.cells(layer, s, tier)
	for h := 0; err == nil && h < l.kvHeads; h++ {
		err = p.dev.Upload(c.buffer, l.at(c, cell, h), src[h*c.head:(h+1)*c.head])
	}
	return err
}

// CopyCells copies n cells of a tier from cell src to cell dst in every layer
// of a group.
func (p *program) CopyCells(group int, tier layout.Tier, dst, src int32, n int) error {
	if tier == layout.Measured {
		return p.copyMeasured(group, dst, src, n)
	}
	for _, l := range p.cache.groups[group] {
		for i := range l.sides {
			if err := p.copyCells(l, l.sides[i].tier(tier), dst, src, int32(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyCells copies runs of contiguous cells of one page.
func (p *program) copyCells(l *layerCache, c *cells, dst, src, n int32) error {
	for c.buffer != nil && n > 0 {
		page := int32(c.page)
		k := min(n, page-max(dst%page, src%page))
		run := p.cache.cells[:int(k)*c.head]
		for h := range l.kvHeads {
			if err := p.dev.Download(run, c.buffer, l.at(c, src, h)); err != nil {
				return err
			}
			if err := p.dev.Upload(c.buffer, l.at(c, dst, h), run); err != nil {
				return err
			}
		}
		dst, src, n = dst+k, src+k, n-k
	}
	return nil
}
