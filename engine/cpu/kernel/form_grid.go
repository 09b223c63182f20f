package kernel

import (
	"encoding/binary"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// These types have few distinct values. The values are points of a codebook or trits,
// with signs, times odd multiples of a unit for every 16 or 32 columns. In
// panels they share one form, which represents the values exactly. It has 16
// levels, the unit of each row as float32, a multiple for each row and 16
// columns, and nibbles that index the levels.
const (
	gridUnit  = 16
	gridMult  = gridUnit + 4*PanelRows
	gridFirst = gridMult + 16*PanelRows
	gridBytes = gridFirst + 8*256
	gridShift = 64 // added to the stored levels
)

// grid describes one of these types.
type grid struct {
	t      dtype.Type
	levels [16]int8
	unit   float32 // the block's scale is a multiple of this power of two
	// scale returns the scale of a block and replaces it by 1.
	scale func(blk []byte) float32
	// mult returns the multiple for 16 columns.
	mult func(blk []byte, half int) int8
}

var grids = []grid{
	{dtype.IQ2_XXS, levelsIQ2, 1. / 8, scaleAt(0), func(b []byte, h int) int8 { return odd(b[9+8*(h/2)] >> 4) }},
	{dtype.IQ2_XS, levelsIQ2, 1. / 8, scaleAt(0), func(b []byte, h int) int8 { return odd(b[66+h/2] >> (4 * (h % 2)) & 15) }},
	{dtype.IQ2_S, levelsIQ2, 1. / 8, scaleAt(0), func(b []byte, h int) int8 { return odd(b[74+h/2] >> (4 * (h % 2)) & 15) }},
	{dtype.IQ3_XXS, signed(4, 12, 20, 28, 36, 44, 52, 62), 1. / 4, scaleAt(0), func(b []byte, h int) int8 { return odd(b[69+4*(h/2)] >> 4) }},
	{dtype.IQ3_S, signed(1, 3, 5, 7, 9, 11, 13, 15), 1, scaleAt(0), func(b []byte, h int) int8 { return odd(b[106+h/4] >> (4 * (h / 2 % 2)) & 15) }},
	{dtype.IQ1_S, levelsIQ1, 1. / 8, scaleAt(0), func(b []byte, h int) int8 { return odd(b[35+2*(h/2)] >> 4 & 7) }},
	{dtype.IQ1_M, levelsIQ1, 1. / 8, scaleIQ1M, func(b []byte, h int) int8 {
		return odd(byte(binary.LittleEndian.Uint16(b[48+2*(h/4):])>>(3*(h%4))) & 7)
	}},
	{dtype.TQ1_0, levelsTQ, 1, scaleAt(52), func([]byte, int) int8 { return 1 }},
	{dtype.TQ2_0, levelsTQ, 1, scaleAt(64), func([]byte, int) int8 { return 1 }},
}

var (
	levelsIQ2 = signed(8, 25, 43)
	levelsIQ1 = [16]int8{-9, -7, -1, 1, 7, 9} // in eighths: -1, 0 or 1, shifted by 1/8 in either direction
	levelsTQ  = [16]int8{-1, 0, 1, 2}
)

// signed returns levels with the magnitudes, and their negatives eight places
// later.
func signed(magnitudes ...int8) (l [16]int8) {
	for i, m := range magnitudes {
		l[i], l[8+i] = m, -m
	}
	return l
}

func odd(s byte) int8 { return int8(2*s + 1) }

// scaleAt returns a function that reads the float16 scale at an offset and
// replaces it by 1.
func scaleAt(off int) func([]byte) float32 {
	return func(b []byte) float32 {
		d := dtype.F16ToF32(binary.LittleEndian.Uint16(b[off:]))
		binary.LittleEndian.PutUint16(b[off:], 0x3c00)
		return d
	}
}

// scaleIQ1M reads a float16 scale from the top nibbles of four words and
// replaces it by 1.
func scaleIQ1M(b []byte) float32 {
	var h uint16
	for i := range 4 {
		top := &b[49+2*i]
		h |= uint16(*top>>4) << (4 * i)
		*top = *top&15 | [4]byte{0, 0, 0xc0, 0x30}[i]
	}
	return dtype.F16ToF32(h)
}

// form returns the panel form of the type.
func (g *grid) form() *form {
	var index [256]byte // index of a level
	for i, l := range g.levels {
		if l != 0 || i < 2 {
			index[uint8(l)] = byte(i)
		}
	}
	size := g.t.Bytes()
	return &form{
		elems: 256, subs: 8, halves: true, bytes: gridBytes,
		first: gridFirst, grp: 256, codes: nibblesOf, levels: &g.levels,
		pack: func(dst, src []byte, stride, n int) {
			for i, l := range g.levels {
				dst[i] = byte(l + gridShift)
			}
			for r := range n {
				g.packRow(dst, src[r*stride:r*stride+size], r, &index)
			}
		},
		scales: func(blk []byte, sub, row int) (s scales) {
			for h := range s.d {
				s.d[h] = f32(blk[gridUnit:], row) * float32(int8(blk[gridMult+16*(2*sub+h)+row]))
			}
			return s
		},
	}
}

// packRow packs the block of one row.
func (g *grid) packRow(dst, src []byte, r int, index *[256]byte) {
	var block [128]byte
	b := block[:copy(block[:], src)]
	putF32(dst[gridUnit:], r, g.scale(b)*g.unit)
	var values [256]float32
	if err := quant.Decode(g.t, values[:], b); err != nil {
		panic("kernel: " + err.Error()) // the sizes are those of one block
	}
	for h := range 16 {
		m := g.mult(b, h)
		dst[gridMult+16*h+r] = byte(m)
		one := 1 / (g.unit * float32(m))
		out := dst[gridFirst+256*(h/2):]
		for c, v := range values[16*h : 16*h+16] {
			// The product equals the level up to rounding.
			x := v * one
			level := int8(x + 0.5)
			if x < 0 {
				level = int8(x - 0.5)
			}
			at := &out[c/4*64+4*r+c%4]
			if h%2 == 0 {
				*at = index[uint8(level)]
			} else {
				*at |= index[uint8(level)] << 4
			}
		}
	}
}

func init() {
	for i := range grids {
		forms[grids[i].t] = grids[i].form()
	}
}
