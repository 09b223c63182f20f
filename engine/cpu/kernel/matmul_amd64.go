package kernel

import "unsafe"

// weightChunk is how many bytes of weights stay in the second-level cache
// while all activation rows pass over them.
const weightChunk = 128 << 10

func matMul(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1 int) {
	if active == Generic || w.Cols == 0 {
		matMulGeneric(y, ldy, w, a, row0, row1, panel0, panel1)
		return
	}
	t := tiling{w: w, a: a, y: y, ldy: ldy, size: panelBytes(w.Type, w.Cols), halves: formOf(w.Type).halves}
	step := max(2, weightChunk/t.size&^1)
	whole := min(panel1, w.Rows/PanelRows)
	for p := panel0; p < whole; p += step {
		n := min(step, whole-p)
		for i := row0; i < row1; {
			i += t.rows(i, row0, row1, p, n)
		}
	}
	if whole < panel1 {
		t.last(row0, row1)
	}
}

// tiling is one multiplication cut into the shapes that kernels take.
type tiling struct {
	w      *Packed
	a      *Acts
	y      []float32
	ldy    int
	size   int // bytes of a panel
	halves bool
}

// rows does n panels from p for a tile of activation rows from i on and returns how many
// it has done.
func (t *tiling) rows(i, row0, row1, p, n int) int {
	from, rows := t.next(i, row0, row1, n)
	pairs := 0
	if active == AVX512 && rows > 1 {
		pairs = n &^ 1
		t.kernel(2, rows, &t.y[from*t.ldy+p*PanelRows], 4*t.ldy, from, p, pairs)
	}
	if pairs < n {
		p, n = p+pairs, n-pairs
		for j := from; j < from+rows; {
			k, r := t.next(j, from, from+rows, 1)
			t.kernel(1, r, &t.y[k*t.ldy+p*PanelRows], 4*t.ldy, k, p, n)
			j = k + r
		}
	}
	return from + rows - i
}

// next chooses the rows to do at row i. At the end the tile steps back to be full: the
// results are the same bits again.
func (t *tiling) next(i, row0, row1, panels int) (from, rows int) {
	left := row1 - i
	rows = 4
	if left != 4 && left != 7 && left != 8 && left > 4 && panels > 1 && active == AVX512 && !t.halves {
		rows = 6
	}
	if left == 1 || row1-row0 < rows {
		return i, 1
	}
	return min(i, row1-rows), rows
}

func (t *tiling) kernel(panels, rows int, y *float32, ldy, row, p, n int) {
	w := &t.w.Data[p*t.size]
	x := (*byte)(t.a.ptr(row))
	lda := t.a.stride * int(unsafe.Sizeof(actBlock{}))
	blocks := t.w.Cols / t.w.Type.Elems()
	if active == AVX512 {
		tileAVX512(t.w.Type, panels, rows, y, ldy, w, x, lda, blocks, n)
	} else {
		tileAVX2(t.w.Type, panels, rows, y, ldy, w, x, lda, blocks, n)
	}
}

// last does the last panel, which has fewer rows than a kernel writes.
func (t *tiling) last(row0, row1 int) {
	p := t.w.Panels() - 1
	var out [4 * PanelRows]float32
	for i := row0; i < row1; {
		i0, n := t.next(i, row0, row1, 1)
		i = i0
		t.kernel(1, n, &out[0], 4*PanelRows, i, p, 1)
		for j := range n {
			copy(t.y[(i+j)*t.ldy+p*PanelRows:(i+j)*t.ldy+t.w.Rows], out[j*PanelRows:])
		}
		i += n
	}
}
