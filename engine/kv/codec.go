package kv

import (
	"encoding/binary"
	"fmt"
	"math"

	"godwit/engine/dtype"
)

// maxBlock is the largest Elems of a form with codes.
const maxBlock = 256

// maxF16 is the largest finite f16; larger scales are stored as maxF16.
const maxF16 = 0x7bff

// group returns the number of values that are encoded together.
func (t *Type) group() int { return max(t.Elems, t.Rotation.Size, 1) }

// Padded returns the number of values of a head in the rotated domain: headDim,
// padded with zeros to whole blocks.
func (t *Type) Padded(headDim int) int {
	if t.Join != nil {
		n := 0
		for _, p := range t.Join {
			n += p.Form.Padded(p.Dim)
		}
		return n
	}
	g := t.group()
	return (headDim + g - 1) / g * g
}

// RowBytes returns the size of one head of one token.
func (t *Type) RowBytes(headDim int) int {
	if t.Join != nil {
		n := 0
		for _, p := range t.Join {
			n += p.Form.RowBytes(p.Dim)
		}
		return n
	}
	return t.Padded(headDim) / t.Elems * t.Bytes
}

// Segment is a part of a head's row in one simple form.
type Segment struct {
	Form   *Type
	First  int // first of the head's values in the segment
	Dim    int // number of the head's values in the segment; the rest of its blocks is zero
	Blocks int
	At     int // byte offset in the head's row
	Lane   int // first value of the segment in the rotated, padded domain
}

// Segments divides a head's row into simple forms. Most types have one.
func (t *Type) Segments(headDim int) []Segment {
	if t.Join == nil {
		return []Segment{{Form: t, Dim: headDim, Blocks: t.Padded(headDim) / t.Elems}}
	}
	var s []Segment
	var next Segment
	for _, p := range t.Join {
		next.Form, next.Dim = p.Form, p.Dim
		next.Blocks = p.Form.Padded(p.Dim) / p.Form.Elems
		s = append(s, next)
		next.First += p.Dim
		next.Lane += p.Form.Padded(p.Dim)
		next.At += p.Form.RowBytes(p.Dim)
	}
	return s
}

// Encode packs one head. dst has RowBytes(len(src)) bytes. It returns the number of
// blocks whose scale was infinite or NaN and was stored as the largest f16 or as 0.
// For f16 it counts values instead. bf16 and f32 can store infinity and NaN.
// Source: spec kv-formats.md.
func (t *Type) Encode(dst []byte, src []float32, at At) (saturated int) {
	if c := at.Channels; c != nil {
		normal := make([]float32, len(src))
		c.Normalise(normal, src)
		src, at.Channels = normal, nil
	}
	if t.Join != nil {
		for _, p := range t.Join {
			n := p.Form.RowBytes(p.Dim)
			saturated += p.Form.Encode(dst[:n], src[:p.Dim], at)
			dst, src = dst[n:], src[p.Dim:]
		}
		return saturated
	}
	if t.Float && t.Rotation.Size == 0 {
		return encodeFloats(dst, src, t.Stored)
	}
	var buf [maxRotation]float32
	size := t.group()
	bytes := size / t.Elems * t.Bytes
	for len(src) > 0 {
		x := buf[:size]
		n := copy(x, src)
		clear(x[n:])
		saturated += t.encodeGroup(dst[:bytes], x, at)
		dst, src = dst[bytes:], src[n:]
	}
	return saturated
}

// Decode restores one head of len(dst) values from its row.
func (t *Type) Decode(dst []float32, src []byte, at At) {
	if c := at.Channels; c != nil {
		at.Channels = nil
		t.Decode(dst, src, at)
		c.restore(dst)
		return
	}
	if t.Join != nil {
		for _, p := range t.Join {
			p.Form.Decode(dst[:p.Dim], src, at)
			dst, src = dst[p.Dim:], src[p.Form.RowBytes(p.Dim):]
		}
		return
	}
	if t.Float && t.Rotation.Size == 0 {
		decodeFloats(dst, src, t.Stored)
		return
	}
	var buf [maxRotation]float32
	size := t.group()
	for len(dst) > 0 {
		x := buf[:size]
		src = t.decodeBlocks(x, src)
		if t.Rotation.Size > 0 {
			t.Rotation.inverse(x)
		}
		dst = dst[copy(dst, x):]
	}
}

// DecodeRotated reads a row without undoing the rotation: level times scale.
// dst has Padded(headDim) values.
func (t *Type) DecodeRotated(dst []float32, src []byte) {
	if t.Join != nil {
		for _, p := range t.Join {
			n := p.Form.Padded(p.Dim)
			p.Form.DecodeRotated(dst[:n], src)
			dst, src = dst[n:], src[p.Form.RowBytes(p.Dim):]
		}
		return
	}
	if t.Float {
		decodeFloats(dst, src, t.Stored)
		return
	}
	t.decodeBlocks(dst, src)
}

// decodeBlocks reads len(dst)/Elems blocks and returns the remaining bytes of src.
func (t *Type) decodeBlocks(dst []float32, src []byte) []byte {
	if t.Float {
		decodeFloats(dst, src, t.Stored)
		return src[len(dst)*t.Bytes:]
	}
	var codes [maxBlock]uint8
	for len(dst) > 0 {
		block := src[:t.Bytes]
		c := codes[:t.Elems]
		t.Codes.unpack(c, block)
		d := f16At(block, t.Scale.At)
		for i, v := range c {
			dst[i] = float32(t.Codes.level(v) * d)
		}
		scale(dst[:len(c)], t.Scale.Unit)
		if t.Scale.Affine {
			m := f16At(block, t.Scale.Min)
			for i := range c {
				dst[i] += m
			}
		}
		dst, src = dst[t.Elems:], src[t.Bytes:]
	}
	return src
}

func f16At(block []byte, at int) float32 {
	return dtype.F16ToF32(binary.LittleEndian.Uint16(block[at:]))
}

// putF16 stores v as f16. It stores infinite values as the largest finite one and
// NaN as 0, and returns 1 in these cases.
func putF16(block []byte, at int, v float32) (saturated int) {
	h := dtype.F32ToF16(v)
	if h&0x7c00 == 0x7c00 {
		saturated = 1
		if h&0x3ff != 0 {
			h = 0
		} else {
			h = h&0x8000 | maxF16
		}
	}
	binary.LittleEndian.PutUint16(block[at:], h)
	return saturated
}

// RoundF16 rounds v to f16; too large values become the largest one.
func RoundF16(v float32) float32 {
	var b [2]byte
	putF16(b[:], 0, v)
	return f16At(b[:], 0)
}

// encodeFloats stores plain floats. f16 saturates like a scale; bf16 and f32
// keep infinity and NaN.
func encodeFloats(dst []byte, src []float32, t dtype.Type) (saturated int) {
	switch t {
	case dtype.F32:
		for i, v := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
	case dtype.F16:
		for i, v := range src {
			saturated += putF16(dst, 2*i, v)
		}
	case dtype.BF16:
		for i, v := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], dtype.F32ToBF16(v))
		}
	default:
		panic(fmt.Sprintf("kv: %v is not a float type", t))
	}
	return saturated
}

func decodeFloats(dst []float32, src []byte, t dtype.Type) {
	switch t {
	case dtype.F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case dtype.F16:
		for i := range dst {
			dst[i] = f16At(src, 2*i)
		}
	case dtype.BF16:
		for i := range dst {
			dst[i] = dtype.BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
		}
	default:
		panic(fmt.Sprintf("kv: %v is not a float type", t))
	}
}
