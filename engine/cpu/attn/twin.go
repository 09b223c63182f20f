package attn

import (
	"encoding/binary"

	"godwit/engine/kv"
)

// A head that is padded with as many zeros as it has values, or more, comes out of
// a Walsh-Hadamard transform twice: the second half is the first. The signs behind
// the transform make it an image, and so do codes whose levels have each its
// negative. Scores are then twice those of the first half, and what V adds up to in
// the second half is an image of the first: attention reads half of the codes, and
// its result has the same bits. A value that lies on the boundary of two codes has
// the upper one in both halves, whatever the sign: its cell is odd, and the pages of
// such cells are read in both halves.

// twin is the second half of a part that holds the first.
type twin struct {
	second *codes
	signs  []float32 // what makes the second half of the first
	flips  [8]uint64 // likewise of 64 codes, bit by bit
}

// imaged reports whether the second half of the values of a part is an image of
// the first.
func imaged(g kv.Segment, o Options, l *levels) bool {
	t := g.Form
	if o.Float || g.First > 0 || g.Blocks != 1 || 2*g.Dim > t.Elems || t.Elems != 128 ||
		t.Rotation.Size != t.Elems || t.Rotation.Mid != nil || t.Scale.Rule != kv.CorrectedNorm ||
		t.Codes.Packing != kv.Stream && t.Codes.Packing != kv.Planes {
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

// newTwin places the second half of p, which has been placed.
func newTwin(p *codes, take func(bytes int) int) *twin {
	second := *p
	second.planesAt(take)
	second.read.n = take(0) - second.read.at
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

// images reports whether the second half of the codes of a cell is the image of
// the first.
func (t *twin) images(c []uint8) bool {
	var diff uint64
	for i, f := range t.flips {
		diff |= binary.LittleEndian.Uint64(c[8*i:]) ^ f ^ binary.LittleEndian.Uint64(c[64+8*i:])
	}
	return diff == 0
}

// mirror makes the second half of a finished accumulator.
func (t *twin) mirror(acc []float32) {
	second := acc[len(t.signs):]
	for i, s := range t.signs {
		second[i] = s * acc[i]
	}
}

// prepareTwin makes the queries of both halves; those of the first alone count twice.
func (p *codes) prepareTwin(r *prepared, i int, q []float32) {
	r.codes.set(i, q[:p.values], 2*p.levels.unit, p.levels.zero, nil)
	r.halves[0].set(i, q[:p.values], p.levels.unit, p.levels.zero, nil)
	r.halves[1].set(i, q[p.values:2*p.values], p.levels.unit, p.levels.zero, nil)
}

// scoresOdd adds the scores of a page in both halves.
func (p *codes) scoresOdd(dst []float32, r *prepared, n int, page []byte, s *Scratch) {
	for i, half := range []*codes{p, p.twin.second} {
		half.scoresPage(dst, &prepared{codes: r.halves[i]}, n, page, 0, s)
	}
}

// accumulateOdd adds the cells of a page in both halves: of an accumulator that
// holds the first half, half of what each adds.
func (p *codes) accumulateOdd(acc []float32, ld int, w []float32, n int, v *Visit, s *Scratch) {
	for i := range n {
		for j, half := range []*codes{p, p.twin.second} {
			clear(s.half[j][:])
			half.accumulatePage(s.half[j][:], len(s.half[j]), w[i*Cells:], 1, v, 0, s)
		}
		a := acc[i*ld:][:p.values]
		for j, sign := range p.twin.signs {
			a[j] += (s.half[0][j] + float32(sign*s.half[1][j])) / 2
		}
	}
}
