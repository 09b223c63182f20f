package kernel

import (
	"testing"

	"godwit/engine/dtype"
)

// Nothing on the token path allocates, in any tier.
func TestNoAllocs(t *testing.T) {
	const rows, cols, batch = 40, 256, 13
	r := rnd(11)
	x, y := gauss(r, batch*cols), make([]float32, batch*cols)
	a := NewActs(batch, cols)
	quant := pack(t, dtype.Q4_K, rows, cols, randomRows(r, dtype.Q4_K, rows, cols))
	float := pack(t, dtype.F16, rows, cols, randomRows(r, dtype.F16, rows, cols))
	raw := &Raw{Type: dtype.Q6_K, Rows: rows, Cols: cols, Data: randomRows(r, dtype.Q6_K, rows, cols)}
	scratch, half := NewScratch(cols), make([]uint16, cols)
	eachTier(t, func(t *testing.T) {
		if n := testing.AllocsPerRun(10, func() {
			for i := range batch {
				a.Quantize(i, x[i*cols:(i+1)*cols])
			}
			MatVec(y, quant, a, 3, 0, quant.Panels())
			MatMul(y, rows, quant, a, 0, batch, 0, quant.Panels())
			MatVecF32(y, float, x[:cols], 0, float.Panels())
			MatMulF32(y, rows, float, x, cols, 0, batch, 0, float.Panels())
			MatMulRaw(y, rows, raw, a, nil, 0, 0, batch, 0, raw.Panels(), scratch)
			quant.Row(y[:cols], 39)
			RMSNorm(y[:cols], x[:cols], x[:cols], 1e-6)
			SiLUMul(y[:cols], x[:cols], x[:cols])
			Rope(y[:cols], x[:cols/2], x[:cols/2], true)
			Softmax(y[:cols], x[:cols])
			ToF16(half, x[:cols])
			_ = ArgMax(x)
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}
