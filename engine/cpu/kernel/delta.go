package kernel

import "fmt"

// RowSum computes dst[j] = Σ w[i]·s[i·stride+j], with the rows in order. Each
// product is added with one rounding.
func RowSum(dst, s []float32, stride int, w []float32) {
	checkRows("row sum", len(dst), len(s), stride, len(w))
	rowSum(dst, s, w, stride)
}

// RowStep computes s[i·stride+j] = decay·s[i·stride+j] + k[i]·d[j], and then
// out[j] = Σ q[i]·s[i·stride+j] with the new values, with the rows in order.
func RowStep(out, s []float32, stride int, d, q, k []float32, decay float32) {
	checkLen("row step", len(out), len(d))
	checkLen("row step", len(q), len(k))
	checkRows("row step", len(out), len(s), stride, len(k))
	rowStep(out, s, d, q, k, stride, decay)
}

func checkRows(op string, cols, n, stride, rows int) {
	if rows < 1 || stride < cols || n < (rows-1)*stride+cols {
		panic(fmt.Sprintf("kernel: %s of %d rows of %d values, %d apart, in %d", op, rows, cols, stride, n))
	}
}

func rowSumGeneric(dst, s, w []float32, stride int) {
	clear(dst)
	for i, x := range w {
		for j, v := range s[i*stride : i*stride+len(dst)] {
			dst[j] = fma(x, v, dst[j])
		}
	}
}

func rowStepGeneric(out, s, d, q, k []float32, stride int, decay float32) {
	clear(out)
	for i, x := range k {
		row := s[i*stride : i*stride+len(out)]
		for j, v := range row {
			row[j] = fma(x, d[j], float32(v*decay))
			out[j] = fma(q[i], row[j], out[j])
		}
	}
}
