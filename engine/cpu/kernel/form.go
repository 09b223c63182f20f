package kernel

import (
	"encoding/binary"
	"math"

	"godwit/engine/dtype"
)

// form describes the layout of one weight type in panels. All functions process
// one block of 16 rows. blk starts at the block.
type form struct {
	elems  int  // columns per block
	bytes  int  // bytes of a block of 16 rows; 0 means as many as in the file
	subs   int  // groups of 32 columns per block
	halves bool // one scale for every 16 columns
	mins   bool // the format has minima as well as scales

	// Location of the codes of a group of 32 columns.
	first, grp int   // offset of the first group in a block, and stride of the groups
	codes      codes // encoding of a group's bytes
	at         int   // offset of the codes in the group
	plane      int   // offset in the group of the bits above the codes, if bit is not 0
	bit        int   // position of these bits in a code
	offset     int8  // subtracted from every code
	levels     *[16]int8

	// pack interleaves one block. Row r of the source starts at src[r·stride:].
	// Only the first n rows exist. If n < 16, dst is zeroed beforehand.
	pack func(dst, src []byte, stride, n int)
	// scales returns the scales and minima of the two halves of a group of one
	// row.
	scales func(blk []byte, sub, row int) scales
}

// codes is the encoding of 32 columns.
type codes uint8

const (
	bytesOf codes = iota
	sixBits
	nibblesOf
	crumbs
)

// unpack extracts the signed codes of a group of one row.
func (f *form) unpack(dst *[32]int8, blk []byte, sub, row int) {
	g := blk[f.first+f.grp*sub:]
	switch f.codes {
	case bytesOf:
		for k := range 8 {
			put4(dst[4*k:], u32(g[64*k+4*row:]))
		}
	case sixBits:
		fromSixes(dst, g, row)
	case nibblesOf:
		fromNibbles(dst, g[f.at:], row)
	case crumbs:
		fromCrumbs(dst, g, row)
	}
	if f.bit > 0 {
		orPlane(dst, g[f.plane:], row, f.bit)
	}
	for c, q := range dst {
		if f.levels != nil {
			dst[c] = f.levels[q&15]
		} else {
			dst[c] = q - f.offset
		}
	}
}

// scales are the scales and minima of 32 columns: value = d[col/16]·code +
// m[col/16].
type scales struct{ d, m [2]float32 }

// value returns the weight of a code in a column, rounded like the format's own
// decoder.
func (s *scales) value(f *form, code int8, col int) float32 {
	v := float32(s.d[col/16] * float32(code))
	if f.mins {
		v += s.m[col/16]
	}
	return v
}

// forms has a form for each type that multiplies codes. form_grid.go adds more.
var forms = [...]*form{
	dtype.Q4_0:   &formQ4_0,
	dtype.Q4_1:   &formQ4_1,
	dtype.Q5_0:   &formQ5_0,
	dtype.Q5_1:   &formQ5_1,
	dtype.Q8_0:   &formQ8_0,
	dtype.Q2_K:   &formQ2_K,
	dtype.Q3_K:   &formQ3_K,
	dtype.Q4_K:   &formQ4_K,
	dtype.Q5_K:   &formQ5_K,
	dtype.Q6_K:   &formQ6_K,
	dtype.IQ4_NL: &formIQ4_NL,
	dtype.IQ4_XS: &formIQ4_XS,
	dtype.MXFP4:  &formMXFP4,
}

func formOf(t dtype.Type) *form {
	if int(t) < len(forms) {
		return forms[t]
	}
	return nil
}

func u16(b []byte, i int) uint16        { return binary.LittleEndian.Uint16(b[2*i:]) }
func u32(b []byte) uint32               { return binary.LittleEndian.Uint32(b) }
func same(d float32) [2]float32         { return [2]float32{d, d} }
func put32(b []byte, v uint32)          { binary.LittleEndian.PutUint32(b, v) }
func f32(b []byte, i int) float32       { return math.Float32frombits(u32(b[4*i:])) }
func putF32(b []byte, i int, v float32) { put32(b[4*i:], math.Float32bits(v)) }
func f16(b []byte, i int) float32       { return dtype.F16ToF32(u16(b, i)) }
func copy16(dst, src []byte, r int)     { dst[2*r], dst[2*r+1] = src[0], src[1] }
func spread(dst, src []byte, r, n int) {
	for i := range n {
		dst[16*i+r] = src[i]
	}
}

// nibbles copies 16 bytes whose low nibbles are columns 0 to 15 and whose high
// nibbles are columns 16 to 31.
func nibbles(dst, src []byte, r int) {
	_, _ = dst[192+60+3], src[15]
	d := dst[4*r:]
	put32(d, u32(src))
	put32(d[64:], u32(src[4:]))
	put32(d[128:], u32(src[8:]))
	put32(d[192:], u32(src[12:]))
}

// fromNibbles extracts the codes of a row.
func fromNibbles(dst *[32]int8, grp []byte, row int) {
	for j := range 4 {
		v := u32(grp[64*j+4*row:])
		for i := range 4 {
			dst[4*j+i] = int8(v >> (8 * i) & 15)
			dst[16+4*j+i] = int8(v >> (8*i + 4) & 15)
		}
	}
}

// fromCrumbs extracts the 2-bit codes of a row.
func fromCrumbs(dst *[32]int8, grp []byte, row int) {
	for j := range 2 {
		v := u32(grp[64*j+4*row:])
		for c := range 16 {
			dst[16*j+c] = int8(v >> (c%4*8 + c/4*2) & 3)
		}
	}
}

// orPlane ors the 1-bit codes of a row into bit bit.
func orPlane(dst *[32]int8, grp []byte, row, bit int) {
	v := u32(grp[4*row:])
	for c := range dst {
		dst[c] |= int8(v>>(c%4*8+c/4)&1) << bit
	}
}

// sixes stores four words of 6-bit codes in three words. The top bits of the
// three words hold the fourth.
func sixes(dst []byte, c *[4]uint32, r int) {
	put32(dst[4*r:], c[0]|c[3]>>4&0x03030303<<6)
	put32(dst[64+4*r:], c[1]|c[3]>>2&0x03030303<<6)
	put32(dst[128+4*r:], c[2]|c[3]&0x03030303<<6)
}

// fromSixes extracts the 6-bit codes of a row.
func fromSixes(dst *[32]int8, grp []byte, row int) {
	for h := range 2 {
		var last uint32
		for k := range 3 {
			v := u32(grp[192*h+64*k+4*row:])
			last = last<<2 | v>>6&0x03030303
			put4(dst[16*h+4*k:], v&0x3f3f3f3f)
		}
		put4(dst[16*h+12:], last)
	}
}

// put4 stores four bytes.
func put4(dst []int8, v uint32) {
	for i := range 4 {
		dst[i] = int8(v >> (8 * i))
	}
}

// plane moves bit col of h to bit col/4 of byte col%4.
func plane(h uint32) (p uint32) {
	for i := range 8 {
		p |= (h >> (4 * i) & 15) * 0x00204081 & 0x01010101 << i
	}
	return p
}
