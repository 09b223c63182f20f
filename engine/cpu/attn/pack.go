package attn

import (
	"encoding/binary"
	"math"

	"godwit/engine/dtype"
	"godwit/engine/kv"
)

// unpack reads the codes of a block.
func unpack(c []uint8, f *kv.Codes, block []byte) {
	switch f.Packing {
	case kv.Stream:
		unstream(c, block[f.At:], f.Bits)
	case kv.Planes:
		unstream(c, block[f.At:], 2)
		high := block[f.High:]
		for i := range c {
			c[i] |= high[i/8] >> (i % 8) & 1 << 2
		}
	case kv.Halves:
		half := len(c) / 2
		for j, b := range block[f.At : f.At+half] {
			c[j], c[j+half] = b&15, b>>4
		}
		if f.Bits > 4 {
			high := block[f.High:]
			for i := range c {
				c[i] |= high[i/8] >> (i % 8) & 1 << 4
			}
		}
	case kv.Int8:
		copy(c, block[f.At:f.At+len(c)])
	}
}

// pack is the inverse of unpack.
func pack(block []byte, f *kv.Codes, c []uint8) {
	switch f.Packing {
	case kv.Stream:
		putStream(block[f.At:], c, f.Bits)
	case kv.Planes:
		var low, high [maxElems]uint8
		for i, v := range c {
			low[i], high[i] = v&3, v>>2
		}
		putStream(block[f.At:], low[:len(c)], 2)
		putStream(block[f.High:], high[:len(c)], 1)
	case kv.Halves:
		half := len(c) / 2
		for j := range half {
			block[f.At+j] = c[j]&15 | c[j+half]<<4
		}
		if f.Bits > 4 {
			var high [maxElems]uint8
			for i, v := range c {
				high[i] = v >> 4
			}
			putStream(block[f.High:], high[:len(c)], 1)
		}
	case kv.Int8:
		copy(block[f.At:], c)
	}
}

// unstream reads consecutive codes of the given width, least significant bit
// first. len(c) is a multiple of 8, so every 8 codes end on a byte boundary.
func unstream(c []uint8, src []byte, bits int) {
	mask := uint64(1)<<bits - 1
	for i := 0; i < len(c); i += 8 {
		var v uint64
		for k, b := range src[:bits] {
			v |= uint64(b) << (8 * k)
		}
		for j := range c[i : i+8] {
			c[i+j] = uint8(v & mask)
			v >>= bits
		}
		src = src[bits:]
	}
}

// putStream is the inverse of unstream.
func putStream(dst []byte, c []uint8, bits int) {
	for i := 0; i < len(c); i += 8 {
		var v uint64
		for j, x := range c[i : i+8] {
			v |= uint64(x) << (bits * j)
		}
		for k := range bits {
			dst[k] = byte(v >> (8 * k))
		}
		dst = dst[bits:]
	}
}

func halfAt(x []byte) float32 { return dtype.F16ToF32(binary.LittleEndian.Uint16(x)) }

func f32At(x []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(x)) }

func putF32(x []byte, v float32) { binary.LittleEndian.PutUint32(x, math.Float32bits(v)) }

// Distance returns the distance from page to next in bytes, or 0 if there is no
// next.
func Distance(page, next []byte) int {
	if len(next) == 0 {
		return 0
	}
	return int(addressOf(next) - addressOf(page))
}

// aligned returns n bytes that start on a cache line.
func aligned(n int) []byte {
	b := make([]byte, n+63)
	off := int(-addressOf(b) & 63)
	return b[off : off+n : off+n]
}
