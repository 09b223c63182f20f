package attn

import (
	"encoding/binary"

	"godwit/engine/kv"
)

// A page of trellis codes keeps the strings of its rows one after another,
// since windows run across values: the planes of other codes would tear them
// apart. Attention turns them into the same tiles of bytes.

// trellis is what it has to know about the strings of a part's blocks.
type trellis struct {
	bits  int
	bytes int       // of a string
	table [256]byte // levels, on K 128 above
	level [256]int8 // levels
	run   *kv.Trellis
	order [64]byte // bytes of a string that windows are cut from, for vector code
	shift [64]byte // where in its eight of those bytes each window begins
}

func newTrellis(t *kv.Type, s kv.Side) *trellis {
	if t.Codes.Packing != kv.Cyclic {
		return nil
	}
	y := &trellis{bits: t.Codes.Bits, bytes: t.Elems * t.Codes.Bits / 8, run: t.Codes.Trellis}
	for i, v := range t.Codes.Levels {
		y.level[i] = int8(v)
		y.table[i] = byte(int8(v))
		if s == kv.K {
			y.table[i] += 128
		}
	}
	y.arrange(s)
	return y
}

// arrange settles from which bytes of 64 values vector code cuts its windows.
// On K eight windows in a row come from eight bytes. On V the order is such
// that interleaving the bytes of four tokens leaves 16 values in order in a
// register: byte 16·a + 4·b + c has value 16·b + 4·a + c, and four windows
// come from four bytes.
func (y *trellis) arrange(s kv.Side) {
	for q := range 8 {
		for half := range 2 {
			value := 8*q + 4*half
			first := y.bits * 8 * q / 8
			if s == kv.V {
				a, b := q/2, q%2*2+half
				value = 16*b + 4*a
				first = y.bits * value / 8
			} else {
				first += 4 * half
			}
			for i := range 4 {
				y.order[8*q+4*half+i] = byte(first + i)
				y.shift[8*q+4*half+i] = byte(y.bits * (4*half + i))
				if s == kv.V { // 12 bits on, three-bit codes begin within a byte
					y.shift[8*q+4*half+i] = byte(32*half + y.bits*value%8 + y.bits*i)
				}
			}
		}
	}
}

// trellised reports whether a part has trellis codes.
func (p *codes) trellised() bool { return p.cyclic != nil }

// string is the codes of block b of a cell.
func (p *codes) string(page []byte, cell, b int) []byte {
	n := p.cyclic.bytes
	return page[p.low.at+(b*Cells+cell)*n:][:n]
}

// windows reads the window of every value of a string.
func (y *trellis) windows(dst, src []byte) {
	n, mask := uint(y.bits), uint(len(src)-1)
	if len(src)&(len(src)-1) != 0 {
		y.windowsAnyLength(dst, src)
		return
	}
	for i := range dst {
		bit := n * uint(i)
		dst[i] = byte((uint(src[bit/8]) | uint(src[(bit/8+1)&mask])<<8) >> (bit % 8))
	}
}

func (y *trellis) windowsAnyLength(dst, src []byte) {
	for i := range dst {
		bit := y.bits * i
		next := bit/8 + 1
		if next == len(src) {
			next = 0
		}
		dst[i] = byte((uint(src[bit/8]) | uint(src[next])<<8) >> (bit % 8))
	}
}

// overrun is how far behind the strings of a page vector code may read: what
// follows them is longer.
const overrun = 16

// lookUpTrellis writes a byte for every value of a page: its level, on K above zero.
// Tokens without a bit in used may be left out, four at a time.
func (p *codes) lookUpTrellis(dst, page []byte, ahead int, used uint64) {
	for b := range p.Blocks {
		strings := page[p.low.at+b*Cells*p.cyclic.bytes:] // what follows may be read
		tile := dst[b*p.elems*Cells:][:p.elems*Cells]
		if p.side == kv.K {
			trellisTokens(tile, strings, p.cyclic, p.elems, ahead)
		} else {
			trellisValues(tile, strings, p.cyclic, p.elems, p.chunk, used, ahead)
		}
	}
}

func trellisTokensGeneric(dst, strings []byte, y *trellis, elems int) {
	var w [maxElems]byte
	for cell := range Cells {
		y.windows(w[:elems], strings[cell*y.bytes:][:y.bytes])
		at := dst[cell/16*64+cell%16*4:]
		for i := 0; i < elems; i += 4 {
			v := uint32(y.table[w[i]]) | uint32(y.table[w[i+1]])<<8 | uint32(y.table[w[i+2]])<<16 | uint32(y.table[w[i+3]])<<24
			binary.LittleEndian.PutUint32(at[64*i:], v)
		}
	}
}

func trellisValuesGeneric(dst, strings []byte, y *trellis, elems, chunk int, used uint64) {
	var w [4][maxElems]byte
	for group := range Cells / 4 {
		if used>>(4*group)&15 == 0 {
			continue
		}
		for t := range 4 {
			y.windows(w[t][:elems], strings[(4*group+t)*y.bytes:][:y.bytes])
		}
		for i := range elems {
			at := dst[i/chunk*chunk*Cells+group*chunk*4+i%chunk*4:]
			v := uint32(y.table[w[0][i]]) | uint32(y.table[w[1][i]])<<8 | uint32(y.table[w[2][i]])<<16 | uint32(y.table[w[3][i]])<<24
			binary.LittleEndian.PutUint32(at, v)
		}
	}
}
