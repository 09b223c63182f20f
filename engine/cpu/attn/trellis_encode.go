package attn

import (
	"encoding/binary"

	"godwit/engine/kv"
)

// paths is the memory of a trellis encoder.
type paths struct {
	z    [maxElems]int16
	w    [maxElems]uint8
	back [maxElems]int16 // the values, last first
	cost [64]uint16
	from [maxElems * 64]uint8 // high bits of the window that led to a state, by value
}

// encodeTrellis is the rule Unbiased.
func (p *codes) encodeTrellis(page []byte, cell, first int, x []float32, s *Scratch) {
	forward(&p.Form.Rotation, x, p.Form.Rotation.Forward)
	p.packTrellis(page, cell, first/p.elems, x, s)
}

// pack encodes values of the rotated domain into a cell.
func (p *codes) pack(page []byte, cell int, x []float32, s *Scratch) {
	for b := range p.Blocks {
		p.packTrellis(page, cell, b, x[b*p.elems:(b+1)*p.elems], s)
	}
}

// packTrellis encodes block b, already rotated.
func (p *codes) packTrellis(page []byte, cell, b int, x []float32, s *Scratch) {
	t, y := p.Form, p.cyclic
	z, w := s.paths.z[:len(x)], s.paths.w[:len(x)]
	energy := kv.TrellisTargets(z, x, t.Scale.Unit)
	searchTrellis(w, z, y, s.paths)
	scale := t.TrellisScale(x, w, energy)
	for i := range w {
		w[i] &= 1<<y.bits - 1
	}
	putStream(p.string(page, cell, b), w, y.bits)
	binary.LittleEndian.PutUint16(page[p.scale+2*(b*Cells+cell):], saturated(scale))
}
