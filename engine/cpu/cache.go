package cpu

import (
	"errors"
	"fmt"
	"sync/atomic"

	"godwit/engine/backend"
	"godwit/engine/cpu/attn"
	"godwit/engine/kv"
)

// cache is the memory of all layers' cells.
type cache struct {
	layers  []*layerCache // by layer number; nil where a layer has none
	groups  [][]*layerCache
	size    int64
	forms   map[formKey]*attn.Form
	memory  map[attnShape]*attnMemory
	scratch *attn.Scratch // for rows that enter and leave between runs
}

// formKey is what an attn.Form depends on; view is the number of values that
// V takes of K's rows, 0 where the form has cells of its own.
type formKey struct {
	t    *kv.Type
	dim  int
	view int
	attn.Options
}

// layerCache is K and V of one layer. A page holds the cells of one KV head
// after the other.
type layerCache struct {
	group    int
	kvHeads  int
	temper   kv.Temper
	channels []kv.Channels // calibration of the keys, one a KV head; nil: none
	k, v     side
}

type side struct {
	form *attn.Form // nil: V is a view of K
	data memory
	page int // bytes of a page
}

// head is one KV head of a page.
func (s *side) head(page int32, head int) []byte {
	n := s.form.PageBytes()
	off := int(page)*s.page + head*n
	return s.data[off : off+n : off+n]
}

// newCache allocates the cells of a layout.
func newCache(l *kv.Layout, s backend.Sizes, float bool) (*cache, error) {
	c := &cache{
		layers: make([]*layerCache, len(l.Layers)), groups: make([][]*layerCache, len(l.Groups)),
		forms: map[formKey]*attn.Form{}, memory: map[attnShape]*attnMemory{},
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		lc := &layerCache{group: y.Group, kvHeads: y.KVHeads, temper: y.Temper, channels: y.K.Channels}
		pages := s.Pages[y.Group]
		err := c.side(&lc.k, &y.K, lc.kvHeads, pages, attn.Options{Side: kv.K, Float: float})
		if err == nil && !y.V.View {
			err = c.side(&lc.v, &y.V, lc.kvHeads, pages, attn.Options{Side: kv.V, Float: float})
		}
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.layers[i] = lc
		c.groups[y.Group] = append(c.groups[y.Group], lc)
	}
	for i := range l.Layers {
		if from := l.Layers[i].Share; from >= 0 && c.layers[i] == nil {
			c.layers[i] = c.layers[from]
		}
	}
	var forms []*attn.Form
	for _, f := range c.forms {
		forms = append(forms, f)
	}
	c.scratch = attn.NewScratch(forms...)
	return c, nil
}

// memoryOf is what layers of one shape of attention share.
func (c *cache) memoryOf(s attnShape, workers int) *attnMemory {
	m := c.memory[s]
	if m != nil {
		return m
	}
	m = &attnMemory{jobs: 8 * workers, parts: s.parts}
	c.memory[s] = m
	for range workers {
		m.workers = append(m.workers, newAttnWorker(s))
	}
	m.arrived = make([]atomic.Int32, m.jobs)
	m.partial = newSoftmaxes(m.jobs*s.group*s.parts, s.v.Padded)
	return m
}

func newAttnWorker(s attnShape) *attnWorker {
	n := s.block * s.group
	w := &attnWorker{
		queries:  s.k.NewQueries(n),
		scores:   make([]float32, partPages*n*attn.Cells),
		acc:      make([]float32, n*s.v.Padded),
		scratch:  attn.NewScratch(s.k, s.v),
		levelled: make([]float32, s.k.HeadDim), offset: make([]float32, n),
		part:  make([]softmax, n),
		total: newSoftmaxes(n, s.v.Padded),
	}
	for i := range n {
		w.part[i].acc = w.acc[i*s.v.Padded : (i+1)*s.v.Padded]
	}
	return w
}

func newSoftmaxes(n, padded int) []softmax {
	list, acc := make([]softmax, n), make([]float32, n*padded)
	for i := range list {
		list[i].acc = acc[i*padded : (i+1)*padded : (i+1)*padded]
	}
	return list
}

func (c *cache) side(s *side, l *kv.SideLayout, heads, pages int, o attn.Options) error {
	s.form = c.form(formKey{t: l.Active, dim: l.HeadDim, Options: o})
	s.page = heads * s.form.PageBytes()
	var err error
	if s.data, err = allocate(pages * s.page); err != nil {
		return fmt.Errorf("%w: cache of %d pages wants %d bytes", backend.ErrMemory, pages, pages*s.page)
	}
	c.size += int64(len(s.data))
	return nil
}

func (c *cache) layer(i int) (*layerCache, error) {
	if i >= len(c.layers) || c.layers[i] == nil {
		return nil, fmt.Errorf("cpu: layer %d has no cache in the layout", i)
	}
	return c.layers[i], nil
}

// close gives the memory back.
func (c *cache) close() error {
	var errs []error
	for _, g := range c.groups {
		for _, l := range g {
			errs = append(errs, l.k.data.free(), l.v.data.free())
		}
	}
	c.groups, c.layers = nil, nil
	return errors.Join(errs...)
}

// form returns the one form of a key.
func (c *cache) form(k formKey) *attn.Form {
	f := c.forms[k]
	if f == nil {
		f = attn.New(k.t, k.dim, k.Options)
		if k.view > 0 {
			f = f.View(k.view)
		}
		c.forms[k] = f
	}
	return f
}

// side finds one side of a layer.
func (p *program) side(layer int, s kv.Side) (*side, int, error) {
	l, err := p.cache.layer(layer)
	if err != nil {
		return nil, 0, err
	}
	sd := &l.k
	if s == kv.V {
		sd = &l.v
	}
	if sd.form == nil {
		return nil, 0, fmt.Errorf("cpu: %v of layer %d is a view", s, layer)
	}
	return sd, l.kvHeads, nil
}

// ReadRow copies the KV heads of a cell to dst in the format's own bytes.
func (p *program) ReadRow(dst []byte, layer int, s kv.Side, part kv.Part, cell int32) error {
	sd, heads, err := p.side(layer, s)
	if err != nil {
		return err
	}
	n := sd.form.RowBytes()
	for h := range heads {
		sd.form.Get(dst[h*n:(h+1)*n], sd.head(cell/kv.PageCells, h), int(cell%kv.PageCells))
	}
	return nil
}

// WriteRow is the inverse of ReadRow.
func (p *program) WriteRow(layer int, s kv.Side, part kv.Part, cell int32, src []byte) error {
	sd, heads, err := p.side(layer, s)
	if err != nil {
		return err
	}
	n := sd.form.RowBytes()
	for h := range heads {
		sd.form.Put(sd.head(cell/kv.PageCells, h), int(cell%kv.PageCells), src[h*n:(h+1)*n])
	}
	return nil
}

// RowBytes is the size of a row of all KV heads as the memory was allocated.
func (p *program) RowBytes(layer int, s kv.Side, part kv.Part) int {
	sd, _, err := p.side(layer, s)
	if err != nil || part != kv.Packed {
		return 0
	}
	return sd.page / kv.PageCells
}

// CopyCells copies n cells from cell src on to cell dst on in every layer of
// a group.
func (p *program) CopyCells(group int, part kv.Part, dst, src int32, n int) error {
	for _, l := range p.cache.groups[group] {
		for _, s := range []*side{&l.k, &l.v} {
			if s.form == nil {
				continue
			}
			for h := range l.kvHeads {
				for i := range int32(n) {
					d, c := dst+i, src+i
					s.form.Copy(s.head(d/kv.PageCells, h), int(d%kv.PageCells), s.head(c/kv.PageCells, h), int(c%kv.PageCells), p.cache.scratch)
				}
			}
		}
	}
	return nil
}
