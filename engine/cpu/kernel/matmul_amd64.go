package kernel

import (
	"unsafe"

	"godwit/engine/dtype"
)

// weightChunk is how many bytes of weights stay in the second-level cache
// while all activation rows pass over them.
const weightChunk = 128 << 10

func matMul(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1 int) {
	if active == Generic || w.Cols == 0 {
		matMulGeneric(y, ldy, w, a, row0, row1, panel0, panel1)
		return
	}
	size := panelBytes(w.Type, w.Cols)
	step := max(1, weightChunk/size)
	whole := min(panel1, w.Rows/PanelRows)
	for p := panel0; p < whole; p += step {
		n := min(step, whole-p)
		for i := row0; i < row1; {
			t := tileAt(&i, row0, row1)
			tile(w.Type, t, &y[i*ldy+p*PanelRows], 4*ldy, &w.Data[p*size], a, i, w.Cols/w.Type.Elems(), n)
			i += t
		}
	}
	if whole < panel1 {
		matMulLast(y, ldy, w, a, row0, row1)
	}
}

// tileAt chooses the number of activation rows to do next at row *i. At the end of
// the rows it steps back to fill a tile: the results are the same bits again.
func tileAt(i *int, row0, row1 int) int {
	left := row1 - *i
	for _, t := range [...]int{12, 4} {
		if t == 12 && active != AVX512 {
			continue
		}
		if left >= t {
			return t
		}
		if left > t*2/3 && row1-row0 >= t {
			*i = row1 - t
			return t
		}
	}
	return 1
}

// matMulLast does the last panel, which has fewer rows than a kernel writes.
func matMulLast(y []float32, ldy int, w *Packed, a *Acts, row0, row1 int) {
	p := w.Panels() - 1
	size := panelBytes(w.Type, w.Cols)
	var out [12 * PanelRows]float32
	for i := row0; i < row1; {
		t := tileAt(&i, row0, row1)
		tile(w.Type, t, &out[0], 4*PanelRows, &w.Data[p*size], a, i, w.Cols/w.Type.Elems(), 1)
		for j := range t {
			copy(y[(i+j)*ldy+p*PanelRows:(i+j)*ldy+w.Rows], out[j*PanelRows:])
		}
		i += t
	}
}

func tile(t dtype.Type, n int, y *float32, ldy int, w *byte, a *Acts, row, blocks, panels int) {
	x := (*byte)(a.ptr(row))
	lda := a.stride * int(unsafe.Sizeof(actBlock{}))
	if active == AVX512 {
		tileAVX512(t, n, y, ldy, w, x, lda, blocks, panels)
	} else {
		tileAVX2(t, n, y, ldy, w, x, lda, blocks, panels)
	}
}
