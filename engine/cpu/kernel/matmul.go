package kernel

import "fmt"

// MatVec computes y[r] = w[r]·a[row] for the rows r of panels panel0 to
// panel1-1. y has w.Rows values. The type must be [Quantized].
func MatVec(y []float32, w *Packed, a *Acts, row, panel0, panel1 int) {
	checkActs(w, a, row, row+1)
	checkPanels(w, len(y), panel0, panel1)
	matMul(y, 0, w, a, row, row+1, panel0, panel1, panel1)
}

// MatMul computes y[i·ldy+r] = w[r]·a[i] for activation rows row0 to row1-1 and
// the rows r of panels panel0 to panel1-1. Each result has the same bits as
// with MatVec. No other element of y is written, so ldy may be as small as the
// number of rows in the panels.
func MatMul(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1 int) {
	MatMulAhead(y, ldy, w, a, row0, row1, panel0, panel1, panel1)
}

// MatMulAhead is like MatMul, for a thread that then continues with the panels up to
// ahead-1. It also prefetches their first few kilobytes.
func MatMulAhead(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1, ahead int) {
	if row0 >= row1 {
		return
	}
	checkActs(w, a, row0, row1)
	checkPanels(w, len(y)-(row1-1)*ldy, panel0, panel1)
	matMul(y, ldy, w, a, row0, row1, panel0, panel1, min(max(ahead, panel1), w.Panels()))
}

// MatVecF32 is like MatVec, for the types F32, F16 and BF16 and float activations x.
// Products are added in float32 with fused multiply-add, with separate sums for
// even and odd columns.
func MatVecF32(y []float32, w *Packed, x []float32, panel0, panel1 int) {
	checkFloat(w, len(x), w.Cols, 0, 1)
	checkPanels(w, len(y), panel0, panel1)
	matMulF32(y, 0, w, x, w.Cols, 0, 1, panel0, panel1)
}

// MatMulF32 is like MatMul, for F32, F16 and BF16. Activation row i is x[i·ldx:].
// Each result has the same bits as with MatVecF32.
func MatMulF32(y []float32, ldy int, w *Packed, x []float32, ldx, row0, row1, panel0, panel1 int) {
	if row0 >= row1 {
		return
	}
	checkFloat(w, len(x), ldx, row0, row1)
	checkPanels(w, len(y)-(row1-1)*ldy, panel0, panel1)
	matMulF32(y, ldy, w, x, ldx, row0, row1, panel0, panel1)
}

func checkActs(w *Packed, a *Acts, row0, row1 int) {
	if !Quantized(w.Type) || a.cols != w.Cols || row0 < 0 || row1 > a.rows {
		panic(fmt.Sprintf("kernel: %v of %d columns by activation rows %d to %d of %d × %d", w.Type, w.Cols, row0, row1, a.rows, a.cols))
	}
}

func checkFloat(w *Packed, n, ldx, row0, row1 int) {
	if !isFloat(w.Type) || row0 < 0 || ldx < w.Cols || n < (row1-1)*ldx+w.Cols {
		panic(fmt.Sprintf("kernel: %v of %d columns by rows %d to %d of %d floats, %d apart", w.Type, w.Cols, row0, row1, n, ldx))
	}
}

func checkPanels(w *Packed, n, panel0, panel1 int) {
	if n < min(panel1*PanelRows, w.Rows) || panel0 < 0 || panel1 > w.Panels() || len(w.Data) < panel1*panelBytes(w.Type, w.Cols) {
		panic(fmt.Sprintf("kernel: panels %d to %d of %d × %d in %d bytes, room for %d results", panel0, panel1, w.Rows, w.Cols, len(w.Data), n))
	}
}
