package attn

import (
	"encoding/binary"

	"godwit/engine/kv"
)

// A page of trellis codes interleaves the strings of several tokens: eight on
// K, four on V. The bytes of the first eight values of these tokens come first,
// then the bytes of the next eight values. One load then contains all bytes
// from which the windows of several tokens are cut. The planes of other codes
// would split windows.

// trellis describes the layout of the strings of a segment's blocks.
type trellis struct {
	cuts
	bits   int
	bytes  int       // bytes per string
	beside int       // number of tokens with interleaved strings
	level  [256]int8 // levels
	run    *kv.Trellis
}

// cuts holds the constants of the vector code, in the order in which it reads
// them.
type cuts struct {
	table [256]byte   // levels; on K they are 128 higher
	shift [64]byte    // start of each window within eight bytes
	order [2][64]byte // byte order of a load from which windows are cut; indices from 64 on are the following bytes
}

func newTrellis(t *kv.Type, s kv.Side) *trellis {
	if t.Codes.Packing != kv.Cyclic {
		return nil
	}
	y := &trellis{bits: t.Codes.Bits, bytes: t.Elems * t.Codes.Bits / 8, beside: 8, run: t.Codes.Trellis}
	if s == kv.V {
		y.beside = 4
	}
	for i, v := range t.Codes.Levels {
		y.level[i] = int8(v)
		y.table[i] = byte(int8(v))
		if s == kv.K {
			y.table[i] += 128
		}
	}
	if s == kv.K {
		y.cutTokens()
	} else {
		y.cutValues()
	}
	return y
}

// cutTokens makes the constants for cutting eight values of eight tokens. Each
// token's values come from eight bytes, which may reach into the next group. In
// the first byte order, that group is in the same load. In the second, it is in a
// second register, which holds the beginning of the cyclic string.
func (y *trellis) cutTokens() {
	n := y.bits
	for i := range 64 {
		token, k := i/8, i%8
		y.shift[i] = byte(n * k)
		y.order[0][i] = byte(k/n*8*n+token*n+k%n) & 63
		y.order[1][i] = byte(k/n*64+token*n+k%n) & 127
	}
}

// cutValues makes the constants for cutting 32 values of two tokens. Each of
// the two orders cuts two of four tokens. Interleaving the words then makes the
// four tokens of a value contiguous. Eight bytes give four values of both
// tokens: 0 to 3, 16 to 19, 4 to 7, 20 to 23 and so on.
func (y *trellis) cutValues() {
	n := y.bits
	for i := range 64 {
		value := i/16*4 + i/8%2*16
		bit := n * value % (8 * n)
		y.shift[i] = byte(i%2*32 + bit%8 + i%8/2*n)
		k := bit/8 + i%4
		unit, token := value/8+k/n, i%8/4
		at := unit*4*n + token*n + k%n
		if unit >= 4 {
			at = 64 + (unit-4)*4*n + token*n + k%n
		}
		y.order[0][i], y.order[1][i] = byte(at)&127, byte(at+2*n)&127
	}
}

// trellised reports whether a segment has trellis codes.
func (p *codes) trellised() bool { return p.cyclic != nil }

// strings returns the strings of block b. The slice extends beyond them,
// because readers may read the bytes after them.
func (p *codes) strings(page []byte, b int) []byte {
	return page[p.low.at+b*Cells*p.cyclic.bytes:]
}

// at returns the offset of the string of a cell.
func (y *trellis) at(cell int) int {
	return cell/y.beside*y.beside*y.bytes + cell%y.beside*y.bits
}

// put stores the string of a cell.
func (y *trellis) put(strings []byte, cell int, src []byte) {
	at := y.at(cell)
	for i := 0; i < y.bytes; i += y.bits {
		copy(strings[at:], src[i:i+y.bits])
		at += y.beside * y.bits
	}
}

// get is the inverse of put.
func (y *trellis) get(dst, strings []byte, cell int) {
	at := y.at(cell)
	for i := 0; i < y.bytes; i += y.bits {
		copy(dst[i:i+y.bits], strings[at:])
		at += y.beside * y.bits
	}
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

// overrun is the number of bytes that vector code may read beyond the strings
// of a page. The scales that follow are longer.
const overrun = 64

// lookUpTrellis writes a byte for every value of a page: its level, which on K
// is levels.zero higher. Tokens without a bit in used may be skipped, four at a
// time.
func (p *codes) lookUpTrellis(dst, page []byte, ahead int, used uint64) {
	for b := range p.Blocks {
		strings := p.strings(page, b)
		tile := dst[b*p.elems*Cells:][:p.elems*Cells]
		if p.side == kv.K {
			trellisTokens(tile, strings, p.cyclic, p.elems, ahead)
		} else {
			trellisValues(tile, strings, p.cyclic, p.elems, p.chunk, used, ahead)
		}
	}
}

func trellisTokensGeneric(dst, strings []byte, y *trellis, elems int) {
	var w, row [maxElems]byte
	for cell := range Cells {
		y.get(row[:], strings, cell)
		y.windows(w[:elems], row[:y.bytes])
		at := dst[cell/16*64+cell%16*4:]
		for i := 0; i < elems; i += 4 {
			v := uint32(y.table[w[i]]) | uint32(y.table[w[i+1]])<<8 | uint32(y.table[w[i+2]])<<16 | uint32(y.table[w[i+3]])<<24
			binary.LittleEndian.PutUint32(at[64*i:], v)
		}
	}
}

func trellisValuesGeneric(dst, strings []byte, y *trellis, elems, chunk int, used uint64) {
	var w [4][maxElems]byte
	var row [maxElems]byte
	for group := range Cells / 4 {
		if used>>(4*group)&15 == 0 {
			continue
		}
		for t := range 4 {
			y.get(row[:], strings, 4*group+t)
			y.windows(w[t][:elems], row[:y.bytes])
		}
		for i := range elems {
			at := dst[i/chunk*chunk*Cells+group*chunk*4+i%chunk*4:]
			v := uint32(y.table[w[0][i]]) | uint32(y.table[w[1][i]])<<8 | uint32(y.table[w[2][i]])<<16 | uint32(y.table[w[3][i]])<<24
			binary.LittleEndian.PutUint32(at, v)
		}
	}
}
