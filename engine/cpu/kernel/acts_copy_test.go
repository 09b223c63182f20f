package kernel

import (
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// A copied row of activations gives the same product bits, in every form of
// activations.
func TestActsCopy(t *testing.T) {
	const rows, cols = 32, 64
	src := make([]byte, dtype.Q8_0.RowBytes(cols)*rows)
	if err := quant.Encode(dtype.Q8_0, src, gaussian(1, rows*cols), nil); err != nil {
		t.Fatal(err)
	}
	w := &Packed{Type: dtype.Q8_0, Rows: rows, Cols: cols, Data: make([]byte, len(src))}
	Pack(w.Data, w.Type, rows, cols, src, 0, w.Panels())
	a, b := NewActs(3, cols), NewActs(5, cols)
	x := gaussian(2, 3*cols)
	for i := range 3 {
		a.Quantize(i, x[i*cols:(i+1)*cols])
	}
	for i, from := range []int{2, 0, 1, 2, 2} {
		b.Copy(i, a, from)
	}
	got, want := make([]float32, 5*rows), make([]float32, rows)
	MatMul(got, rows, w, b, 0, 5, 0, w.Panels())
	for i, from := range []int{2, 0, 1, 2, 2} {
		MatVec(want, w, a, from, 0, w.Panels())
		sameBits(t, "copy", got[i*rows:(i+1)*rows], want)
	}
}
