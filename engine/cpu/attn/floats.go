package attn

import (
	"encoding/binary"

	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
	"godwit/engine/kv"
)

// floats is a segment of plain floats. Arithmetic is in float32.
//
// A page of K is [value][64 tokens]. Every value of the head is a line of 64
// tokens, so that dot products need no sum across lanes. A page of V is [chunk
// of 64 values][64 tokens][64 values], with a narrower last chunk.
//
// With a rotation, Dim counts the values of the rotated domain.
type floats struct {
	kv.Segment
	stored dtype.Type
	side   kv.Side
	size   int // bytes per value
	at     int // offset of the segment in a page
}

func newFloats(g kv.Segment, begin places, o Options) *floats {
	g.Dim = g.Blocks * g.Form.Elems
	return &floats{Segment: g, at: begin.read, stored: g.Form.Stored, side: o.Side, size: g.Form.Bytes}
}

// area returns the segment's part of a page.
func (p *floats) area(page []byte) []byte {
	return page[p.at:][:p.Dim*p.size*Cells]
}

func (p *floats) first(dim int) segment {
	if p.First >= dim {
		return nil
	}
	v := *p
	if p.Form.Rotation.Size == 0 {
		v.Dim = min(p.Dim, dim-p.First)
	}
	return &v
}

func (p *floats) reads() int { return p.Dim * p.size * Cells }

func (p *floats) rests() int { return 0 }

func (p *floats) scratch() int { return 0 }

// index returns the position of value d of a cell, in values.
func (p *floats) index(cell, d int) int {
	if p.side == kv.K {
		return d*Cells + cell
	}
	c := d / 64 * 64
	return c*Cells + cell*min(64, p.Dim-c) + d - c
}

func (p *floats) write(page Page, cell int, x []float32, at kv.At, s *Scratch) (saturated int) {
	row := s.row[p.At : p.At+p.Dim*p.size]
	if size := p.Form.Rotation.Size; size > 0 {
		v := s.value[:p.Dim]
		clear(v[copy(v, x):])
		for first := 0; first < len(v); first += size {
			forward(&p.Form.Rotation, v[first:first+size], p.Form.Rotation.Forward)
		}
		x = v
	}
	if p.stored == dtype.F16 {
		toHalf(row, x)
		saturated = saturatedHalves(x)
	} else {
		saturated = p.Form.Encode(row, x, at)
	}
	p.put(page, cell, s.row)
	return saturated
}

// prefetchForWrite prefetches a whole page of K for writing, because a cell has a value in every
// line of 64 tokens.
func (p *floats) prefetchForWrite(page Page, cell int) {
	a := p.area(page.Read)
	if p.side == kv.K {
		kernel.PrefetchForWrite(a)
		return
	}
	for c := 0; c < p.Dim; c += 64 {
		kernel.PrefetchForWrite(a[p.index(cell, c)*p.size:][:min(64, p.Dim-c)*p.size])
	}
}

func (p *floats) put(page Page, cell int, row []byte) (asymmetric bool) {
	a, row := p.area(page.Read), row[p.At:]
	if p.side == kv.V {
		for c := 0; c < p.Dim; c += 64 {
			copy(a[p.index(cell, c)*p.size:], row[c*p.size:min(c+64, p.Dim)*p.size])
		}
		return false
	}
	a = a[cell*p.size:]
	if p.size == 2 {
		spreadHalves(a, row[:2*p.Dim])
		return false
	}
	for d := range p.Dim {
		binary.LittleEndian.PutUint32(a[4*d*Cells:], binary.LittleEndian.Uint32(row[4*d:]))
	}
	return false
}

// spreadHalvesGeneric stores 16-bit values, each one line of K after the
// previous one.
func spreadHalvesGeneric(dst, src []byte) {
	for d := range len(src) / 2 {
		binary.LittleEndian.PutUint16(dst[2*d*Cells:], binary.LittleEndian.Uint16(src[2*d:]))
	}
}

func (p *floats) get(row []byte, page Page, cell int) {
	a, row := p.area(page.Read), row[p.At:]
	for d := range p.Dim {
		copy(row[d*p.size:][:p.size], a[p.index(cell, d)*p.size:])
	}
}

// rotated reads the values of four cells of 16-bit floats, ld apart.
func (p *floats) rotated(dst []float32, ld int, page []byte, cell int) {
	a := p.area(page)
	for i := range abreast {
		x := dst[i*ld:][:p.Dim]
		for d := range x {
			x[d] = halfAt(a[2*p.index(cell+i, d):])
		}
	}
}

func (p *floats) room(n int) prepared { return prepared{coef: newCoef(n, p.Dim)} }

func (p *floats) prepare(r *prepared, i int, q, _ []float32) {
	setCoef(r.coef, i, q[p.Lane:p.Lane+p.Dim])
}

func (p *floats) scores(dst []float32, r *prepared, n int, visits []Visit, s *Scratch) {
	for i := range visits {
		v := &visits[i]
		p.scoresPage(dst[v.At:], r.coef, n, v, Distance(v.Page, s.Then))
	}
}

// scoresPage scores one page. If then is not 0, it is the prefetch distance for
// the values after the first v.Cells of the head.
func (p *floats) scoresPage(dst, coef []float32, n int, v *Visit, then int) {
	a := p.area(v.Page)
	ahead := v.Ahead
	for i := 0; i < n; i += panel {
		for d := 0; d < p.Dim; d += 64 {
			steps := ones(min(64, p.Dim-d))
			m := mulAddArgs{
				acc: dst[i*Cells:], ld: Cells, n: min(panel, n-i), lanes: (v.Cells + 7) &^ 7,
				x: a[d*Cells*p.size:], pitch: Cells * p.size, stored: p.stored,
				coef: coef, steps: steps, ahead: ahead,
			}
			if then != 0 {
				m.steps = steps & ones(v.Cells)
				mulAdd(&m)
				m.steps, m.ahead = steps&^ones(v.Cells), then
			}
			mulAdd(&m)
			coef = coef[panel*64:]
		}
		ahead, then = 0, 0
	}
}

func (p *floats) accumulate(acc []float32, ld int, w []float32, n int, visits []Visit, s *Scratch) {
	for i := range visits {
		if v := &visits[i]; v.Used != 0 {
			p.accumulatePage(acc, ld, w[v.At:], n, v.Page, v.Ahead, v.Used, s)
		}
	}
}

func (p *floats) accumulatePage(acc []float32, ld int, w []float32, n int, page []byte, ahead int, used uint64, s *Scratch) {
	a := p.area(page)
	for d := 0; d < p.Dim; d += 64 {
		width := min(64, p.Dim-d)
		m := mulAddArgs{
			ld: ld, lanes: width, x: a[d*Cells*p.size:], pitch: width * p.size, stored: p.stored,
			steps: used, finite: p.stored != dtype.F16, ahead: ahead,
		}
		if p.side == kv.K {
			transposeFloats(s.tile, a[d*Cells*p.size:], width, p.stored)
			m.x, m.pitch, m.stored, m.ahead = s.tile, width*4, dtype.F32, 0
		}
		for i := 0; i < n; i += panel {
			m.acc, m.coef, m.n = acc[i*ld+p.Lane+d:], w[i*Cells:], min(panel, n-i)
			mulAdd(&m)
			m.ahead = 0
		}
	}
}

// transposeFloatsGeneric transposes [width][64 tokens] to [64 tokens][width]
// float32.
func transposeFloatsGeneric(dst, x []byte, width int, stored dtype.Type) {
	var line [Cells]float32
	size := 4
	if stored != dtype.F32 {
		size = 2
	}
	for d := range width {
		loadFloats(line[:], x[d*Cells*size:], stored)
		for t, v := range line {
			putF32(dst[(t*width+d)*4:], v)
		}
	}
}

// ones returns n set bits, for n from 1 to 64.
func ones(n int) uint64 { return ^uint64(0) >> (64 - n) }
