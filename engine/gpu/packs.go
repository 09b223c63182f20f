package gpu

import (
	"unsafe"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/shaders"
)

// packs lists the pages that a batch packs from their exact form, as kernels
// read them. There is one list per side of a layer, with {packed page, exact
// page, sequence} for each page.
type packs struct {
	data   []byte
	buffer Buffer // nil if no layer packs pages
	sides  []*packSide
	alone  []launch // packing launches of all layers, for pages that are packed before or after the other launches
}

// packSide is the list of one side of a layer. Pages that this batch does not
// write come first, because they can be packed before anything runs.
type packSide struct {
	layer     int // layer that owns the cells
	side      kv.Side
	group     int
	index, of int // index among the sides that pack pages in the layer's group; number of these sides
	at        int64
	room      int // capacity in pages
	before, n int
	now       stage
}

// stage selects the pages of the lists that the next launches pack.
type stage int

const (
	packBefore stage = iota // pages that the batch does not write
	packWritten
	packAll // all pages, for conversations that calibrate their keys; runs after the calibration
)

// packBytes is the size of a page's entry in a list.
const packBytes = 12

// newPacks allocates the lists of the sides that pack pages. Their indices
// equal those of llm.Pack. Both sides of a layer have an index if either packs.
func (p *program) newPacks() error {
	k := &p.packs
	for g := range p.layout.Groups {
		group := &p.layout.Groups[g]
		p.sub.self = append(p.sub.self, group.SelfCalibrated)
		first, places := len(k.sides), 0
		for _, i := range group.Layers {
			y := &p.layout.Layers[i]
			if !y.K.PackedByPage() && !y.V.PackedByPage() {
				continue
			}
			for _, s := range []kv.Side{kv.K, kv.V} {
				if y.Side(s).PackedByPage() {
					l := &packSide{layer: i, side: s, group: g, index: places, room: group.ExactPages + group.Passing, at: int64(len(k.data))}
					k.sides = append(k.sides, l)
					k.data = append(k.data, make([]byte, (packBytes*l.room+imageAlign-1)/imageAlign*imageAlign)...)
				}
				places++
			}
		}
		for _, l := range k.sides[first:] {
			l.of = places
		}
	}
	if len(k.sides) == 0 {
		return nil
	}
	var err error
	k.buffer, err = p.alloc(int64(len(k.data)), "pages to pack")
	return err
}

// of returns the list of a side of a layer, or nil if it has none.
func (k *packs) of(y *layout.Layer, s kv.Side, l *layout.Layout) *packSide {
	for _, p := range k.sides {
		if &l.Layers[p.layer] == y && p.side == s {
			return p
		}
	}
	return nil
}

// collect gathers the pages of a batch and reports whether there are any.
func (k *packs) collect(b *llm.Batch) bool {
	any := false
	for _, l := range k.sides {
		l.before, l.n = 0, 0
		if len(b.Packs) <= l.group {
			continue
		}
		for _, written := range []bool{false, true} {
			for i := range b.Packs[l.group] {
				q := &b.Packs[l.group][i]
				step := l.index * q.Of / l.of
				if step < q.From || step >= q.To || (writer(b, l.group, q.Page) >= 0) != written {
					continue
				}
				list := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(k.data[l.at:]))), 3*l.room)
				list[3*l.n], list[3*l.n+1], list[3*l.n+2] = q.Page, q.Exact, int32(q.Seq)
				l.n++
			}
			if !written {
				l.before = l.n
			}
		}
		any = any || l.n > 0
	}
	return any
}

// writer returns the span that has rows in a page of a group, or -1 if there is
// none.
func writer(b *llm.Batch, group int, page int32) int {
	for i, s := range b.Spans {
		for n := (s.Len - s.Rows) / kv.PageCells; n*kv.PageCells < s.Len; n++ {
			if b.Tables[group][i][n] == page {
				return i
			}
		}
	}
	return -1
}

// pack records the launches of one stage separately from the other launches.
// Pages that a decode step fills are packed after the step. No row of the step
// reads them packed, so the recorded launches of the step stay the same.
func (p *program) pack(now stage) {
	p.dev.Barrier()
	for _, l := range p.packs.sides {
		l.now = now
	}
	for i := range p.packs.alone {
		l := &p.packs.alone[i]
		if grid := l.size(&p.shape); grid[2] > 0 {
			p.dev.Launch(l.pipe, grid, l.args, l.params)
		}
	}
	p.dev.Barrier()
}

// repack adds the launches that pack pages of a layer. Launches for pages that a
// prefill writes go among the layer's other launches. The others go to the
// separate list.
func (c *compiler) repack(t *attention) error {
	p := c.p
	for s, form := range []*shaders.Cache{t.k, t.v} {
		d, list := &t.cache.sides[s], p.packs.of(t.cache.layout, kv.Side(s), p.layout)
		if list == nil {
			continue
		}
		table, err := p.constant(bytesOf(form.Table()))
		if err != nil {
			return err
		}
		mean, gain := c.none(), c.none()
		if form.SelfCalibrated {
			mean, gain = t.mean, t.gain
		}
		args := []place{
			{Bind{p.packs.buffer, list.at}, int64(packBytes * list.room)},
			{Bind{d.exact.buffer, d.exact.at}, d.exact.buffer.Size() - d.exact.at},
			table, mean, gain,
			{Bind{d.packed.buffer, 0}, d.packed.buffer.Size()},
			p.counts(t.Layer),
		}
		for _, l := range form.Repack(t.KVHeads, d.target(kv.Side(s), p.image)) {
			size := func(stage stage) [3]uint32 {
				first, n := 0, list.before
				switch stage {
				case packWritten:
					first, n = list.before, list.n-list.before
				case packAll:
					n = list.n
				}
				l.First = uint32(first)
				return [3]uint32{l.X, uint32(t.KVHeads), uint32(kv.PageCells * n)}
			}
			err := c.add(l.Kernel.Name, l.Constants, l.Params, args, func(s *shape) [3]uint32 {
				switch {
				case s.measures:
					return size(packAll)
				case s.decode:
					return [3]uint32{}
				}
				return size(packWritten)
			})
			if err != nil {
				return err
			}
			alone := p.launches[len(p.launches)-1]
			alone.size = func(*shape) [3]uint32 { return size(list.now) }
			p.packs.alone = append(p.packs.alone, alone)
		}
	}
	return nil
}
