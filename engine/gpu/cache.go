package gpu

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/kv"
)

// cache is the memory of all layers' cells. A page holds the cells of one KV
// head after the other, in the format's own bytes.
type cache struct {
	layers []*layerCache // by layer number; nil where a layer has none
	groups [][]*layerCache
	cells  []byte // of one KV head, on their way from page to page
}

// layerCache is K and V of one layer.
type layerCache struct {
	group   int
	kvHeads int
	layout  *kv.LayerLayout
	sides   [2]side
}

// side is K or V of a layer; buffer is nil where V is a view of K.
type side struct {
	buffer Buffer
	head   int // bytes of one head of one cell
}

// at is the place of one KV head of a cell.
func (l *layerCache) at(s *side, cell int32, head int) int64 {
	page, in := int64(cell)/kv.PageCells, int64(cell)%kv.PageCells
	return ((page*int64(l.kvHeads)+int64(head))*kv.PageCells + in) * int64(s.head)
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
		if y.Exact != (kv.Window{}) {
			return fmt.Errorf("%w: an exact window of %d and %d sinks in layer %d, on %s", backend.ErrUnsupported, y.Exact.Newest, y.Exact.Sinks, i, p.b.name())
		}
		lc := &layerCache{group: y.Group, kvHeads: y.KVHeads, layout: y}
		for s := range lc.sides {
			sl := y.Side(kv.Side(s))
			if sl.View {
				continue
			}
			d := &lc.sides[s]
			d.head = sl.Active.RowBytes(sl.HeadDim)
			size := int64(p.sizes.Pages[y.Group]) * kv.PageCells * int64(y.KVHeads*d.head)
			var err error
			if d.buffer, err = p.dev.Alloc(max(size, imageAlign), nil, fmt.Sprintf("%v of layer %d", kv.Side(s), i)); err != nil {
				return fmt.Errorf("cache of %d pages, %d bytes in layer %d: %w", p.sizes.Pages[y.Group], size, i, err)
			}
			p.buffers = append(p.buffers, d.buffer)
			p.used.Cache += d.buffer.Size()
			c.cells = append(c.cells, make([]byte, max(0, kv.PageCells*d.head-len(c.cells)))...)
		}
		c.layers[i] = lc
		c.groups[y.Group] = append(c.groups[y.Group], lc)
	}
	for i := range l.Layers {
		if from := l.Layers[i].Share; from >= 0 && c.layers[i] == nil {
			c.layers[i] = c.layers[from]
		}
	}
	return nil
}

func (c *cache) layer(i int) (*layerCache, error) {
	if i < 0 || i >= len(c.layers) || c.layers[i] == nil {
		return nil, fmt.Errorf("gpu: layer %d has no cache in the layout", i)
	}
	return c.layers[i], nil
}

// side finds one side of a layer.
func (p *program) side(layer int, s kv.Side) (*layerCache, *side, error) {
	l, err := p.cache.layer(layer)
	if err != nil {
		return nil, nil, err
	}
	if l.sides[s].buffer == nil {
		return nil, nil, fmt.Errorf("gpu: %v of layer %d is a view", s, layer)
	}
	return l, &l.sides[s], nil
}

// RowBytes is the size of a row of all KV heads as the memory was allocated.
func (p *program) RowBytes(layer int, s kv.Side, part kv.Part) int {
	l, d, err := p.side(layer, s)
	if err != nil || part != kv.Packed {
		return 0
	}
	return l.kvHeads * d.head
}

// ReadRow copies the KV heads of a cell to dst in the format's own bytes.
func (p *program) ReadRow(dst []byte, layer int, s kv.Side, _ kv.Part, cell int32) error {
	l, d, err := p.side(layer, s)
	for h := 0; err == nil && h < l.kvHeads; h++ {
		err = p.dev.Download(dst[h*d.head:(h+1)*d.head], d.buffer, l.at(d, cell, h))
	}
	return err
}

// WriteRow is the inverse of ReadRow.
func (p *program) WriteRow(layer int, s kv.Side, _ kv.Part, cell int32, src []byte) error {
	l, d, err := p.side(layer, s)
	for h := 0; err == nil && h < l.kvHeads; h++ {
		err = p.dev.Upload(d.buffer, l.at(d, cell, h), src[h*d.head:(h+1)*d.head])
	}
	return err
}

// CopyCells copies n packed cells, the only part there is, from cell src on to
// cell dst on in every layer of a group.
func (p *program) CopyCells(group int, _ kv.Part, dst, src int32, n int) error {
	for n > 0 {
		k := min(n, kv.PageCells-int(max(dst%kv.PageCells, src%kv.PageCells)))
		if err := p.copyRun(group, dst, src, k); err != nil {
			return err
		}
		dst, src, n = dst+int32(k), src+int32(k), n-k
	}
	return nil
}

// copyRun copies cells that lie side by side in one page.
func (p *program) copyRun(group int, dst, src int32, n int) error {
	for _, l := range p.cache.groups[group] {
		for i := range l.sides {
			d := &l.sides[i]
			if d.buffer == nil {
				continue
			}
			cells := p.cache.cells[:n*d.head]
			for h := range l.kvHeads {
				if err := p.dev.Download(cells, d.buffer, l.at(d, src, h)); err != nil {
					return err
				}
				if err := p.dev.Upload(d.buffer, l.at(d, dst, h), cells); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
