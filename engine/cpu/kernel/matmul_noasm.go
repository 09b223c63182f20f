//go:build !amd64 && !arm64

package kernel

func matMul(y []float32, ldy int, w *Packed, a *Acts, row0, row1, panel0, panel1, _ int) {
	matMulGeneric(y, ldy, w, a, row0, row1, panel0, panel1)
}

func matMulF32(y []float32, ldy int, w *Packed, x []float32, ldx, row0, row1, panel0, panel1 int) {
	matMulF32Generic(y, ldy, w, x, ldx, row0, row1, panel0, panel1)
}
