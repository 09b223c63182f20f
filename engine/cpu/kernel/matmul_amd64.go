package kernel

import (
	"unsafe"

	"godwit/engine/cpu/kernel/asm"
)

func matMul(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1, ahead int) {
	if active == Generic || w.Cols == 0 {
		matMulGeneric(y, ldy, w, a, row0, row1, panel0, panel1)
		return
	}
	t := tiling{
		w: w, a: a, y: y, ldy: ldy, ahead: ahead, wide: active == AVX512,
		size: panelBytes(w.Type, w.Cols), blocks: w.Cols / w.Type.Elems(),
	}
	if t.wide {
		t.pair = 6
		if formOf(w.Type).halves {
			t.pair = 4
		}
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
	if active == AVX512 {
		t.pair = 6
	}
	t.run(row0, row1, panel0, panel1)
}

// kernel multiplies n panels, starting at p, by activation rows from row on. panels
// is the number of panels that it processes at once.
func (t *tiling) kernel(panels, rows int, y *float32, ldy, row, p, n int) {
	typ, w := t.w.Type, &t.w.Data[p*t.size]
	ok := false
	if t.a == nil {
		x := &t.x[row*t.ldx]
		if active == AVX512 {
			ok = asm.FloatAVX512(typ, panels, rows, y, ldy, w, x, 4*t.ldx, t.blocks, n)
		} else {
			ok = asm.FloatAVX2(typ, panels, rows, y, ldy, w, x, 4*t.ldx, t.blocks, n)
		}
	} else {
		a, lda := (*byte)(t.a.ptr(row)), t.a.stride*int(unsafe.Sizeof(actBlock{}))
		if active == AVX512 {
			ok = asm.TileAVX512(typ, panels, rows, y, ldy, w, a, lda, t.blocks, n, t.ahead-p)
		} else {
			ok = asm.TileAVX2(typ, panels, rows, y, ldy, w, a, lda, t.blocks, n, t.ahead-p)
		}
	}
	if !ok {
		panic("kernel: no kernel for this shape")
	}
}
