package attn

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/kv"
)

// rows is a segment that stores its encoded rows and uses the type's own codec.
type rows struct {
	kv.Segment
	values int
	bytes  int
	cells  int // cells per page
	at     int // offset of the segment in a page
}

func newRows(g kv.Segment, begin places, cells int) *rows {
	return &rows{Segment: g, at: begin.read, values: g.Form.Padded(g.Dim), bytes: g.Form.RowBytes(g.Dim), cells: cells}
}

func (p *rows) first(dim int) segment {
	if p.First >= dim {
		return nil
	}
	return p
}

func (p *rows) reads() int { return p.bytes * p.cells }

func (p *rows) rests() int { return 0 }

func (p *rows) scratch() int { return 0 }

func (p *rows) cell(page []byte, cell int) []byte {
	return page[p.at+cell*p.bytes:][:p.bytes]
}

func (p *rows) write(page Page, cell int, x []float32, at kv.At, _ *Scratch) int {
	return p.Form.Encode(p.cell(page.Read, cell), x, at)
}

func (p *rows) prefetchForWrite(page Page, cell int) {
	kernel.PrefetchForWrite(p.cell(page.Read, cell))
}

func (p *rows) put(page Page, cell int, row []byte) (asymmetric bool) {
	copy(p.cell(page.Read, cell), row[p.At:])
	return false
}

func (p *rows) get(row []byte, page Page, cell int) { copy(row[p.At:], p.cell(page.Read, cell)) }

func (p *rows) room(n int) prepared {
	r := prepared{rows: make([]float32, n*p.values)}
	if p.Form.HasResidual() {
		r.res = make([]float32, n*p.values)
	}
	return r
}

func (p *rows) prepare(r *prepared, i int, q, res []float32) {
	copy(r.rows[i*p.values:(i+1)*p.values], q[p.Lane:])
	if r.res != nil {
		copy(r.res[i*p.values:(i+1)*p.values], res[p.Lane:])
	}
}

func (p *rows) scores(dst []float32, r *prepared, n int, visits []Visit, s *Scratch) {
	for i := range visits {
		v := &visits[i]
		p.scoresPage(dst[v.At:], r, n, v.Page, v.Cells, s)
	}
}

func (p *rows) scoresPage(dst []float32, r *prepared, n int, page []byte, cells int, s *Scratch) {
	x := s.value[:p.values]
	for c := range cells {
		row := p.cell(page, c)
		if r.res == nil {
			p.Form.DecodeRotated(x, row)
		}
		for i := range n {
			q := r.rows[i*p.values : (i+1)*p.values]
			if r.res == nil {
				dst[i*Cells+c] += kernel.Dot(q, x)
			} else {
				dst[i*Cells+c] += p.Form.Score(q, r.res[i*p.values:(i+1)*p.values], row)
			}
		}
	}
}

func (p *rows) accumulate(acc []float32, ld int, w []float32, n int, visits []Visit, s *Scratch) {
	for i := range visits {
		v := &visits[i]
		p.accumulatePage(acc, ld, w[v.At:], n, v.Page, v.Used, s)
	}
}

func (p *rows) accumulatePage(acc []float32, ld int, w []float32, n int, page []byte, used uint64, s *Scratch) {
	x := s.value[:p.values]
	for c := range Cells {
		if used>>c&1 == 0 {
			continue
		}
		p.Form.DecodeRotated(x, p.cell(page, c))
		for i := range n {
			if v := w[i*Cells+c]; v != 0 {
				kernel.Axpy(acc[i*ld+p.Lane:][:p.values], x, v)
			}
		}
	}
}
