package attn

import (
	"encoding/binary"

	"godwit/engine/kv"
)

// If a head is padded with at least as many zeros as it has values, its
// Walsh-Hadamard transform contains every value twice, because the second half
// equals the first. After the signs that follow the transform, the second half is
// an image of the first. The codes are images too if every level has a negative
// counterpart. The scores are then twice those of the first half, and the
// second half of V's sum is an image of the first. Attention reads half of the
// codes, and its result has the same bits. A value on the boundary of two codes
// gets the upper one in both halves, whatever the sign. Its cell is then
// asymmetric, and pages with asymmetric cells are read in both halves.

// twin is the second half of a segment whose codes are stored as the first
// half.
type twin struct {
	second *codes
	signs  []float32 // signs that turn the first half into the second
	flips  [8]uint64 // bits to flip in eight words of codes, to turn the first half into the second
}

// imaged reports whether the second half of a segment's values is an image of
// the first. The segment must be the only one of its form.
func imaged(g kv.Segment, o Options, l *levels) bool {
	t := g.Form
	if o.Float || g.Blocks != 1 || 2*g.Dim > t.Elems || t.Elems != 128 ||
		t.Rotation.Size != t.Elems || t.Rotation.Mid != nil || t.Scale.Rule != kv.CorrectedNorm ||
		t.Scale.Affine || t.Residual != nil || t.Polar != nil || t.Codes.Packing != kv.Stream && t.Codes.Packing != kv.Planes {
		return false
	}
	n := 1 << t.Codes.Bits
	for c := range n {
		if int32(int8(l.table[c]-byte(l.zero))) != -int32(int8(l.table[n-1-c]-byte(l.zero))) {
			return false
		}
	}
	return true
}

// newTwin allocates the codes of the second half of p.
func newTwin(p *codes, take func(bytes int) int) *twin {
	second := *p
	second.planesAt(take)
	t := &twin{second: &second, signs: make([]float32, p.values)}
	var flips [64]byte
	for i := range t.signs {
		t.signs[i] = 1
		if s := p.Form.Rotation.Post; s != nil {
			t.signs[i] = s[i] * s[i+p.values]
		}
		if t.signs[i] < 0 {
			flips[i] = 1<<p.Form.Codes.Bits - 1
		}
	}
	for i := range t.flips {
		t.flips[i] = binary.LittleEndian.Uint64(flips[8*i:])
	}
	return t
}

// asymmetric reports whether a stored cell with codes c is asymmetric. If the scale makes all
// values zero, it is not.
func (p *codes) asymmetric(page Page, cell int, c []uint8) bool {
	return p.twin != nil && halfAt(page.Read[p.scale+2*cell:]) != 0 && !p.twin.images(c)
}

// images reports whether the second half of a cell's codes is the image of the
// first.
func (t *twin) images(c []uint8) bool {
	var diff uint64
	for i, f := range t.flips {
		diff |= binary.LittleEndian.Uint64(c[8*i:]) ^ f ^ binary.LittleEndian.Uint64(c[64+8*i:])
	}
	return diff == 0
}

// mirror makes the second half of a finished accumulator from the first. Exact
// pages and sinks have the same rotation, so their contributions are images
// too.
func (t *twin) mirror(acc []float32) {
	second := acc[len(t.signs):]
	for i, s := range t.signs {
		second[i] = s * acc[i]
	}
}

// prepareTwin prepares a query for the first half, which counts twice, and for
// both halves of asymmetric pages.
func (p *codes) prepareTwin(r *prepared, i int, q []float32) {
	r.codes.set(i, q[:p.values], 2*p.levels.unit, p.levels.zero, nil)
	r.halves[0].codes.scale[i] = r.codes.scale[i] / 2
	r.halves[1].codes.set(i, q[p.values:2*p.values], p.levels.unit, p.levels.zero, nil)
}

// roomTwin allocates the queries of both halves. Those of the first half differ
// from r's own only in their scales.
func (p *codes) roomTwin(r *prepared, n int) {
	r.halves = make([]prepared, 2)
	for i := range r.halves {
		r.halves[i].codes = newOperand(n, p.values, p.Blocks, p.per())
	}
	r.halves[0].codes.q, r.halves[0].codes.init = r.codes.q, r.codes.init
}

// scoresAsymmetric adds the scores of a page, reading both halves.
func (p *codes) scoresAsymmetric(dst []float32, r *prepared, n int, v *Visit, s *Scratch) {
	p.scoresPage(dst, &r.halves[0], n, v.Page, v.Page, v.Ahead, s)
	p.twin.second.scoresPage(dst, &r.halves[1], n, v.Rest, v.Page, 0, s)
}

// accumulateAsymmetric reads both halves of a page and adds its cells to an
// accumulator of the first half. It adds half of the sum of both halves.
func (p *codes) accumulateAsymmetric(acc []float32, ld int, w []float32, n int, v *Visit, s *Scratch) {
	ahead := v.Ahead
	for i := 0; i < n; i += panel {
		m := min(panel, n-i)
		clear(s.first[:m*p.values])
		clear(s.second[:m*p.values])
		p.accumulatePage(s.first[:], p.values, w[i*Cells:], m, v.Page, v.Page, ahead, v.Used, 0, s)
		p.twin.second.accumulatePage(s.second[:], p.values, w[i*Cells:], m, v.Rest, v.Page, 0, v.Used, 0, s)
		for j := range m {
			a := acc[(i+j)*ld:][:p.values]
			first, second := s.first[j*p.values:], s.second[j*p.values:]
			for k, sign := range p.twin.signs {
				a[k] += float32((first[k] + float32(sign*second[k])) / 2)
			}
		}
		ahead = 0
	}
}
