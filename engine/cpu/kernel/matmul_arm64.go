package kernel

import (
	"unsafe"

	"godwit/engine/cpu/kernel/asm"
)

func matMul(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1, _ int) {
	if active == Generic || w.Cols == 0 {
		matMulGeneric(y, ldy, w, a, row0, row1, panel0, panel1)
		return
	}
	t := tiling{
		w: w, a: a, y: y, ldy: ldy,
		size: panelBytes(w.Type, w.Cols), blocks: w.Cols / w.Type.Elems(),
	}
	t.run(row0, row1, panel0, panel1)
}

func matMulF32(y []float32, ldy int, w *Packed, x []float32, ldx, row0, row1, panel0, panel1 int) {
	if active == Generic || w.Cols == 0 {
		matMulF32Generic(y, ldy, w, x, ldx, row0, row1, panel0, panel1)
		return
	}
	t := tiling{
		w: w, x: x, ldx: ldx, y: y, ldy: ldy,
		size: panelBytes(w.Type, w.Cols), blocks: w.Cols,
	}
	t.run(row0, row1, panel0, panel1)
}

// kernel multiplies n panels, starting at p, by activation rows from row on.
func (t *tiling) kernel(_, rows int, y *float32, ldy, row, p, n int) {
	typ, w := t.w.Type, &t.w.Data[p*t.size]
	ok := false
	if t.a == nil {
		ok = asm.FloatNEON(typ, rows, y, ldy, w, &t.x[row*t.ldx], 4*t.ldx, t.blocks, n)
	} else {
		a, lda := (*byte)(t.a.ptr(row)), t.a.stride*int(unsafe.Sizeof(actBlock{}))
		if active == DotProd {
			ok = asm.MatDot(typ, rows, y, ldy, w, a, lda, t.blocks, n)
		} else {
			ok = asm.MatNEON(typ, rows, y, ldy, w, a, lda, t.blocks, n)
		}
	}
	if !ok {
		panic("kernel: no kernel for this shape")
	}
}
