package kernel

import (
	"encoding/binary"
	"fmt"

	"godwit/engine/dtype"
)

// PanelRows is the number of rows of a panel.
const PanelRows = 16

// Packed is a matrix in panels. Data holds PackedSize bytes, filled by Pack.
type Packed struct {
	Type       dtype.Type
	Rows, Cols int
	Data       []byte
}

// Panels returns the number of panels. The last one may have unused rows.
func (w *Packed) Panels() int { return (w.Rows + PanelRows - 1) / PanelRows }

// panelBytes returns the size of a panel of that type.
func panelBytes(t dtype.Type, cols int) int { return cols / t.Elems() * blockBytes(t) }

// blockBytes returns the size of a block of 16 rows in a panel.
func blockBytes(t dtype.Type) int {
	if f := formOf(t); f != nil && f.bytes > 0 {
		return f.bytes
	}
	return PanelRows * t.Bytes()
}

func (w *Packed) panel(i int) []byte {
	n := panelBytes(w.Type, w.Cols)
	return w.Data[i*n : (i+1)*n]
}

// Quantized reports whether t multiplies quantised activations ([MatVec],
// [MatMul]). F32, F16 and BF16 multiply float activations ([MatVecF32],
// [MatMulF32]).
func Quantized(t dtype.Type) bool { return formOf(t) != nil }

// Types lists the types that are [Quantized].
func Types() (list []dtype.Type) {
	for t, f := range forms {
		if f != nil {
			list = append(list, dtype.Type(t))
		}
	}
	return list
}

// PackedSize returns the size of a packed matrix in bytes. It returns false if the type has no
// packed form (see [Raw]) or cols is not a multiple of its block.
func PackedSize(t dtype.Type, rows, cols int) (int, bool) {
	if !Quantized(t) && !isFloat(t) || rows < 0 || cols < 0 || cols%t.Elems() != 0 {
		return 0, false
	}
	return (rows + PanelRows - 1) / PanelRows * panelBytes(t, cols), true
}

func isFloat(t dtype.Type) bool { return t == dtype.F32 || t == dtype.F16 || t == dtype.BF16 }

// Pack writes panels panel0 to panel1-1 of a matrix into dst, which is the
// whole packed matrix. src is the whole matrix in the file's format. Disjoint
// ranges may be packed at the same time. Pack reports whether every scale and
// minimum, and every value of a float type, is finite.
func Pack(dst []byte, t dtype.Type, rows, cols int, src []byte, panel0, panel1 int) (finite bool) {
	size, ok := PackedSize(t, rows, cols)
	if !ok || len(dst) < size || len(src) < rows*t.RowBytes(cols) || panel0 < 0 || panel1 > (rows+PanelRows-1)/PanelRows {
		panic(fmt.Sprintf("kernel: pack %v %d × %d from %d into %d bytes, panels %d to %d", t, rows, cols, len(src), len(dst), panel0, panel1))
	}
	stride, n := t.RowBytes(cols), panelBytes(t, cols)
	finite = true
	for p := panel0; p < panel1; p++ {
		ok := packPanel(dst[p*n:(p+1)*n], t, src[p*PanelRows*stride:], stride, min(PanelRows, rows-p*PanelRows))
		finite = finite && ok
	}
	return finite
}

// packPanel interleaves n rows that are stride bytes apart. The other rows
// become zero.
func packPanel(dst []byte, t dtype.Type, src []byte, stride, n int) (finite bool) {
	if n < PanelRows {
		clear(dst)
	}
	f := formOf(t)
	switch {
	case f == nil && t == dtype.F32:
		return packWords(dst, src, stride, n)
	case f == nil:
		return packHalves(dst, src, stride, n, t == dtype.F16)
	}
	in := t.Bytes()
	out := blockBytes(t)
	finite = true
	for b := range stride / in {
		blk := dst[b*out : (b+1)*out]
		f.pack(blk, src[b*in:], stride, n)
		finite = finite && f.finite(blk)
	}
	return finite
}

// A value is not finite if its exponent is all ones. Adding one to such an
// exponent overflows into the sign bit. The sign bits are cleared first, so the
// lanes of a word do not affect each other. This takes three operations per
// word in addition to the copying.
const (
	low32, one32, high32 = 0x7fffffff_7fffffff, 0x00800000_00800000, 0x80000000_80000000
	low16, high16        = 0x7fff7fff_7fff7fff, 0x80008000_80008000
	oneF16, oneBF16      = 0x04000400_04000400, 0x00800080_00800080
)

// packWords interleaves n rows of float32, two columns at a time.
func packWords(dst, src []byte, stride, n int) (finite bool) {
	var bad uint64
	for r := range n {
		s, d := src[r*stride:(r+1)*stride], dst[4*r:]
		for len(s) >= 8 {
			x := binary.LittleEndian.Uint64(s)
			bad |= x&low32 + one32
			to := d[:4*PanelRows+4]
			binary.LittleEndian.PutUint32(to, uint32(x))
			binary.LittleEndian.PutUint32(to[4*PanelRows:], uint32(x>>32))
			if s = s[8:]; len(s) >= 4 {
				d = d[8*PanelRows:]
			}
		}
		if len(s) >= 4 {
			x := binary.LittleEndian.Uint32(s)
			bad |= uint64(x)&0x7fffffff + 0x00800000
			binary.LittleEndian.PutUint32(d, x)
		}
	}
	return bad&high32 == 0
}

// packHalves interleaves n rows of float16 or bfloat16, four columns at a time.
func packHalves(dst, src []byte, stride, n int, half bool) (finite bool) {
	var bad uint64
	one := uint64(oneBF16)
	if half {
		one = oneF16
	}
	for r := range n {
		s, d := src[r*stride:(r+1)*stride], dst[2*r:]
		for len(s) >= 8 {
			x := binary.LittleEndian.Uint64(s)
			bad |= x&low16 + one
			to := d[:6*PanelRows+2]
			binary.LittleEndian.PutUint16(to, uint16(x))
			binary.LittleEndian.PutUint16(to[2*PanelRows:], uint16(x>>16))
			binary.LittleEndian.PutUint16(to[4*PanelRows:], uint16(x>>32))
			binary.LittleEndian.PutUint16(to[6*PanelRows:], uint16(x>>48))
			if s = s[8:]; len(s) >= 2 {
				d = d[8*PanelRows:]
			}
		}
		for len(s) >= 2 {
			x := binary.LittleEndian.Uint16(s)
			bad |= uint64(x)&0x7fff + one&0x7fff
			binary.LittleEndian.PutUint16(d, x)
			if s = s[2:]; len(s) >= 2 {
				d = d[2*PanelRows:]
			}
		}
	}
	return bad&high16 == 0
}

// finite reports whether the scales and minima of a block of 16 rows are finite.
func (f *form) finite(blk []byte) bool {
	switch {
	case f == &formMXFP4:
		// 2^126 times the largest level, 6, is infinite. 255 is NaN by the specification.
		var bad uint64
		for at := 0; at < 16; at += 8 {
			x := binary.LittleEndian.Uint64(blk[at:])
			bad |= x & (x&0x7f7f7f7f_7f7f7f7f + 0x03030303_03030303)
		}
		return bad&0x80808080_80808080 == 0
	case f.bytes == gridBytes:
		return finite(blk[gridUnit:gridUnit+64], low32, one32)
	case f.mins:
		return finite(blk[:64], low16, oneF16)
	}
	return finite(blk[:32], low16, oneF16)
}

// finite reports whether the floats of b, whose length is a multiple of 32, are
// finite. It checks the highest exponent bit first, which is clear in values
// below two. Nearly all scales are.
func finite(b []byte, low, one uint64) bool {
	var any uint64
	for w := b; len(w) >= 32; w = w[32:] {
		any |= binary.LittleEndian.Uint64(w) | binary.LittleEndian.Uint64(w[8:]) |
			binary.LittleEndian.Uint64(w[16:]) | binary.LittleEndian.Uint64(w[24:])
	}
	high := ^low
	if any&(high>>1) == 0 {
		return true
	}
	var bad uint64
	for w := b; len(w) >= 8; w = w[8:] {
		bad |= binary.LittleEndian.Uint64(w)&low + one
	}
	return bad&high == 0
}

// Row writes row r of the matrix as floats, with the same values as the file's
// decoder.
func (w *Packed) Row(dst []float32, r int) {
	if r < 0 || r >= w.Rows || len(dst) != w.Cols {
		panic(fmt.Sprintf("kernel: row %d of %d × %d into %d floats", r, w.Rows, w.Cols, len(dst)))
	}
	data, row := w.panel(r/PanelRows), r%PanelRows
	f := formOf(w.Type)
	if f == nil {
		floatRow(dst, w.Type, data, row)
		return
	}
	size := blockBytes(w.Type)
	var codes [32]int8
	for b := 0; b*f.elems < len(dst); b++ {
		blk := data[b*size : (b+1)*size]
		for sub := range f.subs {
			f.unpack(&codes, blk, sub, row)
			s := f.scales(blk, sub, row)
			out := dst[b*f.elems+32*sub:][:32]
			for c, q := range codes {
				out[c] = s.value(f, q, c)
			}
		}
	}
}

func floatRow(dst []float32, t dtype.Type, panel []byte, row int) {
	for i := range dst {
		dst[i] = floatAt(t, panel, PanelRows*i+row)
	}
}

// floatAt returns element i of a slice of F32, F16 or BF16.
func floatAt(t dtype.Type, b []byte, i int) float32 {
	switch t {
	case dtype.F32:
		return f32(b, i)
	case dtype.F16:
		return f16(b, i)
	}
	return dtype.BF16ToF32(u16(b, i))
}
