package cpu

import (
	"fmt"
	"sync/atomic"

	"godwit/engine/backend"
	"godwit/engine/cpu/attn"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// cache is the memory of all layers' cells.
type cache struct {
	layers  []*layerCache // indexed by layer number; nil for a layer without a cache
	groups  [][]*layerCache
	passing [2]memory // passing exact pages, by side; shared by all layers
	mem     memory    // memory of all stores
	wants   []want    // parts that are not allocated yet
	size    int64
	forms   map[formKey]*attn.Form
	memory  map[attnShape]*attnMemory
	scratch *attn.Scratch // for copying rows in and out between runs
}

// want is a part of the cache's memory that is not allocated yet.
type want struct {
	to *memory
	n  int
}

// formKey identifies an attn.Form. view is the number of values that V takes
// from K's rows, or 0 if V has its own cells.
type formKey struct {
	t    *kv.Type
	dim  int
	view int
	attn.Options
}

// layerCache is K and V of one layer.
type layerCache struct {
	group    int
	kvHeads  int
	temper   kv.Temper
	window   layout.Window
	channels []kv.Channels            // calibration of the keys, one per KV head; nil for none
	self     []layout.SelfCalibration // calibration of each conversation, by sequence and KV head; nil for none
	k, v     side
}

// side returns K or V.
func (l *layerCache) side(s kv.Side) *side {
	if s == kv.V {
		return &l.v
	}
	return &l.k
}

// side is K or V of a layer: its packed pages, its exact pages, and its pinned rows. The pinned
// rows are one small page per sequence.
type side struct {
	store
	exact, pinned store
	packedByPage  bool // pages are packed from exact ones
}

// store holds the pages of one tier. For each KV head, the bytes that attention reads are
// contiguous over runPages pages, so that they form one memory stream. The other bytes of these
// pages follow. A short context uses only the first run.
type store struct {
	form       *attn.Form // nil if the layer has no such tier
	data       memory
	beyond     memory // pages after those in data, in separate memory
	pages      int    // pages in data
	page       int    // bytes of a page of all KV heads
	heads      int
	asymmetric []bool // whether a KV head of a page may have asymmetric cells, as [page][head] for the pages in data; nil if the form has no asymmetric cells
}

const runPages = 32

// copy copies n cells of a head from cell src to cell dst. Whole pages are
// copied as bytes.
func (s *store) copy(head int, dst, src, n int32, scratch *attn.Scratch) {
	cells := int32(s.form.Cells())
	for n > 0 {
		d, c, run := dst%cells, src%cells, int32(1)
		to, from := s.head(dst/cells, head), s.head(src/cells, head)
		asymmetric := s.isAsymmetric(src/cells, head)
		if d == 0 && c == 0 && n >= cells {
			run = cells
			copy(to.Read, from.Read)
			copy(to.Rest, from.Rest)
		} else {
			asymmetric = s.form.Copy(to, int(d), from, int(c), scratch)
		}
		s.mark(dst/cells, head, int(d), asymmetric)
		dst, src, n = dst+run, src+run, n-run
	}
}

// isAsymmetric reports whether one KV head of a page may have asymmetric cells.
func (s *store) isAsymmetric(page int32, head int) bool {
	return s.asymmetric != nil && s.asymmetric[int(page)*s.heads+head]
}

// mark records whether a cell of a page is asymmetric. The cells of a page are
// written in order, and writing the first one resets the page.
func (s *store) mark(page int32, head, cell int, asymmetric bool) {
	if s.asymmetric != nil && (asymmetric || cell == 0) {
		s.asymmetric[int(page)*s.heads+head] = asymmetric
	}
}

// write encodes one KV head of a cell.
func (s *store) write(page int32, head, cell int, x []float32, at kv.At, scratch *attn.Scratch) (saturated int) {
	scratch.Asymmetric = false
	saturated = s.form.Write(s.head(page, head), cell, x, at, scratch)
	s.mark(page, head, cell, scratch.Asymmetric)
	return saturated
}

// head returns one KV head of a page.
func (s *store) head(page int32, head int) attn.Page {
	read, rest := s.run(page, head)
	n, m := s.form.ReadBytes(), s.form.PageBytes()-s.form.ReadBytes()
	return attn.Page{Read: read[:n:n], Rest: rest[:m:m]}
}

// read returns the bytes of one KV head of a page that attention reads.
func (s *store) read(page int32, head int) []byte {
	read, _ := s.run(page, head)
	n := s.form.ReadBytes()
	return read[:n:n]
}

// run returns one KV head of a page and of the following pages in the same run:
// the bytes that attention reads, and the rest.
func (s *store) run(page int32, head int) (read, rest []byte) {
	data, i, pages := s.data, int(page), s.pages
	if i >= pages {
		data, i, pages = s.beyond, i-pages, len(s.beyond)/s.page
	}
	first := i &^ (runPages - 1)
	run, at := min(runPages, pages-first), i-first
	n, all := s.form.ReadBytes(), s.form.PageBytes()
	data = data[first*s.page+head*run*all:][:run*all]
	return data[at*n : run*n], data[run*n+at*(all-n):]
}

// tier returns the store of a tier.
func (s *side) tier(p layout.Tier) *store {
	switch p {
	case layout.Exact:
		return &s.exact
	case layout.Pinned:
		return &s.pinned
	}
	return &s.store
}

// newCache allocates the cells of a layout.
func newCache(l *layout.Layout, s backend.Sizes, float bool) (*cache, error) {
	c := &cache{
		layers: make([]*layerCache, len(l.Layers)), groups: make([][]*layerCache, len(l.Groups)),
		forms: map[formKey]*attn.Form{}, memory: map[attnShape]*attnMemory{},
	}
	for side, n := range l.Passing {
		c.want(&c.passing[side], int(n))
	}
	for i := range l.Layers {
		y := &l.Layers[i]
		if !y.Owns() {
			continue
		}
		lc := &layerCache{group: y.Group, kvHeads: y.KVHeads, temper: y.Temper, window: y.Exact, channels: y.K.Channels}
		c.side(&lc.k, l, y, s.Pages[y.Group], attn.Options{Side: kv.K, Float: float})
		if y.K.SelfCalibrated {
			for range max(l.Settings.Seqs, 1) * y.KVHeads {
				lc.self = append(lc.self, layout.NewSelfCalibration(y.K.HeadDim, y.Rotary, l.Settings.Span))
			}
			c.size += int64(y.K.SelfBytes * max(l.Settings.Seqs, 1))
		}
		if !y.V.View {
			c.side(&lc.v, l, y, s.Pages[y.Group], attn.Options{Side: kv.V, Float: float})
		}
		c.layers[i] = lc
		c.groups[y.Group] = append(c.groups[y.Group], lc)
	}
	if err := c.allocate(); err != nil {
		return nil, err
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

// memoryOf returns the memory that layers of one attention shape share.
func (c *cache) memoryOf(s attnShape, workers int) *attnMemory {
	m := c.memory[s]
	if m != nil {
		return m
	}
	m = &attnMemory{jobs: 8 * workers, chunks: s.chunks}
	c.memory[s] = m
	for range workers {
		m.workers = append(m.workers, newAttnWorker(s))
	}
	m.arrived = make([]atomic.Uint64, m.jobs)
	m.partial = newSoftmaxes(m.jobs*s.group*s.chunks, s.vForm.Padded)
	return m
}

func newAttnWorker(s attnShape) *attnWorker {
	n := s.block * s.group
	w := &attnWorker{
		queries:    s.kForm.NewQueries(n),
		scores:     make([]float32, longPages*n*attn.Cells),
		scratch:    attn.NewScratch(s.kForm, s.vForm, s.kExact, s.vExact, s.kPinned, s.vPinned),
		normalised: make([]float32, s.kForm.HeadDim), roped: make([]float32, s.group*s.kForm.HeadDim), offset: make([]float32, n),
		out:   make([]float32, s.vForm.HeadDim),
		chunk: newSoftmaxes(n, s.vForm.Padded),
		total: newSoftmaxes(n, s.vForm.Padded),
	}
	if s.kExact != nil {
		w.exact = s.kExact.NewQueries(n)
	}
	if s.kPinned != nil {
		w.pinned, w.pinnedScores = s.kPinned.NewQueries(n), make([]float32, n*attn.Cells)
	}
	return w
}

// newSoftmaxes returns n softmaxes with contiguous sums. The sum of each can be
// resliced to include the sums after it.
func newSoftmaxes(n, padded int) []softmax {
	list, acc := make([]softmax, n), make([]float32, n*padded)
	for i := range list {
		list[i].acc = acc[i*padded : (i+1)*padded]
	}
	return list
}

func (c *cache) side(s *side, l *layout.Layout, y *layout.Layer, pages int, o attn.Options) {
	x := y.Side(o.Side)
	s.packedByPage = x.PackedByPage()
	c.store(&s.store, x.Active, x.HeadDim, y.KVHeads, pages, o)
	if x.Exact != nil {
		c.store(&s.exact, x.Exact, x.HeadDim, y.KVHeads, l.ExactPrivate(y), o)
	}
	if x.Pinned != nil {
		o.Few = y.Exact.Pinned
		c.store(&s.pinned, x.Pinned, x.HeadDim, y.KVHeads, max(l.Settings.Seqs, 1), o)
	}
}

func (c *cache) store(s *store, t *kv.Type, dim, heads, pages int, o attn.Options) {
	s.form = c.form(formKey{t: t, dim: dim, Options: o})
	s.pages, s.page, s.heads = pages, heads*s.form.PageBytes(), heads
	if s.form.Twins() {
		s.asymmetric = make([]bool, pages*heads)
	}
	c.want(&s.data, pages*s.page)
}

func (c *cache) want(to *memory, n int) {
	c.wants = append(c.wants, want{to, n})
	c.size += int64(n)
}

// allocate allocates everything in one mapping. A layer with a short context is
// smaller than a huge page, and with small pages every page of the cache costs
// another TLB entry.
func (c *cache) allocate() (err error) {
	const align = 4096
	n := 0
	for _, w := range c.wants {
		n += (w.n + align - 1) &^ (align - 1)
	}
	if c.mem, err = allocate(n); err != nil {
		return fmt.Errorf("%w: the system refuses %v for the cache", backend.ErrMemory, backend.Bytes(n))
	}
	left := c.mem
	for _, w := range c.wants {
		*w.to = left[:w.n:w.n]
		left = left[(w.n+align-1)&^(align-1):]
	}
	c.wants = nil
	for _, l := range c.layers {
		if l != nil {
			l.k.exact.beyond, l.v.exact.beyond = c.passing[kv.K], c.passing[kv.V]
		}
	}
	return nil
}

func (c *cache) layer(i int) (*layerCache, error) {
	if i >= len(c.layers) || c.layers[i] == nil {
		return nil, fmt.Errorf("cpu: layer %d has no cache in the layout", i)
	}
	return c.layers[i], nil
}

// close frees the memory.
func (c *cache) close() error {
	mem := c.mem
	c.groups, c.layers, c.passing, c.mem = nil, nil, [2]memory{}, nil
	return mem.free()
}

// form returns the form for a key. Each key has only one form.
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

// store returns a tier of one side of a layer.
func (p *program) store(layer int, s kv.Side, tier layout.Tier) (*store, int, error) {
	l, err := p.cache.layer(layer)
	if err != nil {
		return nil, 0, err
	}
	st := l.side(s).tier(tier)
	if st.form == nil {
		return nil, 0, fmt.Errorf("cpu: layer %d has no cells of %v in tier %d", layer, s, tier)
	}
	return st, l.kvHeads, nil
}

// ReadRow copies the KV heads of a cell to dst as encoded bytes.
func (p *program) ReadRow(dst []byte, layer int, s kv.Side, tier layout.Tier, cell int32) error {
	if tier == layout.Measured {
		return p.measured(layer, s, cell, func(o *layout.SelfCalibration, n, h int) error {
			o.Get(dst[h*n : (h+1)*n])
			return nil
		})
	}
	st, heads, err := p.store(layer, s, tier)
	if err != nil {
		return err
	}
	n, cells := st.form.RowBytes(), int32(st.form.Cells())
	for h := range heads {
		st.form.Get(dst[h*n:(h+1)*n], st.head(cell/cells, h), int(cell%cells))
	}
	return nil
}

// measured calls f for each KV head of a layer, with the head's calibration in
// a sequence and the size of its row.
func (p *program) measured(layer int, s kv.Side, seq int32, f func(o *layout.SelfCalibration, n, h int) error) error {
	n := p.RowBytes(layer, s, layout.Measured)
	if n == 0 {
		return fmt.Errorf("cpu: layer %d has no calibrations of conversations", layer)
	}
	l, err := p.cache.layer(layer)
	for h := 0; h < l.kvHeads && err == nil; h++ {
		err = f(&l.self[int(seq)*l.kvHeads+h], n/l.kvHeads, h)
	}
	return err
}

// WriteRow is the inverse of ReadRow.
func (p *program) WriteRow(layer int, s kv.Side, tier layout.Tier, cell int32, src []byte) error {
	if tier == layout.Measured {
		return p.measured(layer, s, cell, func(o *layout.SelfCalibration, n, h int) error { return o.Put(src[h*n : (h+1)*n]) })
	}
	st, heads, err := p.store(layer, s, tier)
	if err != nil {
		return err
	}
	n, cells := st.form.RowBytes(), int32(st.form.Cells())
	for h := range heads {
		at := int(cell % cells)
		st.mark(cell/cells, h, at, st.form.Put(st.head(cell/cells, h), at, src[h*n:(h+1)*n]))
	}
	return nil
}

// RowBytes returns the size of an allocated row of all KV heads.
func (p *program) RowBytes(layer int, s kv.Side, tier layout.Tier) int {
	if tier == layout.Measured {
		if l, err := p.cache.layer(layer); err != nil || l.self == nil || s != kv.K {
			return 0
		}
		return p.layout.Layers[layer].K.SelfRow
	}
	st, _, err := p.store(layer, s, tier)
	if err != nil {
		return 0
	}
	return st.page / st.form.Cells()
}

// CopyCells copies n cells of a tier from cell src to cell dst in every layer
// of a group.
func (p *program) CopyCells(group int, tier layout.Tier, dst, src int32, n int) error {
	for _, l := range p.cache.groups[group] {
		if tier == layout.Measured {
			for i := range n * l.kvHeads {
				if l.self != nil {
					l.self[int(dst)*l.kvHeads+i].Copy(&l.self[int(src)*l.kvHeads+i])
				}
			}
			continue
		}
		for _, s := range []*store{l.k.tier(tier), l.v.tier(tier)} {
			if s.form == nil {
				continue
			}
			for h := range l.kvHeads {
				s.copy(h, dst, src, int32(n), p.cache.scratch)
			}
		}
	}
	return nil
}
