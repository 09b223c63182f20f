package kernel

import (
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

// Panels is the number of panels; the last one may have unused rows.
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
// [MatMul]); F32, F16 and BF16 multiply float activations ([MatVecF32],
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

// PackedSize is the size of a packed matrix in bytes; false if the type has no packed
// form (see [Raw]) or cols is not a multiple of its block.
func PackedSize(t dtype.Type, rows, cols int) (int, bool) {
	if !Quantized(t) && !isFloat(t) || rows < 0 || cols < 0 || cols%t.Elems() != 0 {
		return 0, false
	}
	return (rows + PanelRows - 1) / PanelRows * panelBytes(t, cols), true
}

func isFloat(t dtype.Type) bool { return t == dtype.F32 || t == dtype.F16 || t == dtype.BF16 }

// Pack writes panels panel0 to panel1-1 of a matrix into dst, which is the
// whole packed matrix; src is the whole matrix in the file's format. Disjoint
// ranges may be packed at the same time.
func Pack(dst []byte, t dtype.Type, rows, cols int, src []byte, panel0, panel1 int) {
	size, ok := PackedSize(t, rows, cols)
	if !ok || len(dst) < size || len(src) < rows*t.RowBytes(cols) || panel0 < 0 || panel1 > (rows+PanelRows-1)/PanelRows {
		panic(fmt.Sprintf("kernel: pack %v %d × %d from %d into %d bytes, panels %d to %d", t, rows, cols, len(src), len(dst), panel0, panel1))
	}
	stride, n := t.RowBytes(cols), panelBytes(t, cols)
	for p := panel0; p < panel1; p++ {
		packPanel(dst[p*n:(p+1)*n], t, src[p*PanelRows*stride:], stride, min(PanelRows, rows-p*PanelRows))
	}
}

// packPanel interleaves n rows, stride bytes apart; the other rows become zero.
func packPanel(dst []byte, t dtype.Type, src []byte, stride, n int) {
	if n < PanelRows {
		clear(dst)
	}
	if f := formOf(t); f != nil {
		in := t.Bytes()
		out := blockBytes(t)
		for b := range stride / in {
			f.pack(dst[b*out:(b+1)*out], src[b*in:], stride, n)
		}
		return
	}
	size := t.Bytes()
	for r := range n {
		s := src[r*stride : (r+1)*stride]
		d := dst[r*size:]
		for i := 0; i < len(s); i += size {
			copy(d[i*PanelRows:i*PanelRows+size], s[i:])
		}
	}
}

// Row writes row r of the matrix as floats, with the values of the file's
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
