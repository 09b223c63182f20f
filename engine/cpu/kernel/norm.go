package kernel

import "math"

// Dot returns the sum of a[i]·b[i], in 32 partial sums.
func Dot(a, b []float32) float32 {
	checkLen("dot", len(a), len(b))
	return dot(a, b)
}

// Sum returns the sum of x, in 32 partial sums.
func Sum(x []float32) float32 { return sum(x) }

// Max returns the largest value of x, ignoring NaN. It returns -Inf if x has no
// other values.
func Max(x []float32) float32 { return maximum(x) }

// ArgMax returns the first index of the largest value of x, ignoring NaN. It
// returns 0 if x has no other values.
func ArgMax(x []float32) int {
	if i := index(x, maximum(x)); i >= 0 {
		return i
	}
	return 0
}

// RMSNorm computes dst = x / √(mean(x²) + eps) · w. A nil w means no weights.
// Source: arXiv 1910.07467.
func RMSNorm(dst, x, w []float32, eps float32) {
	checkLen("rms norm", len(dst), len(x))
	normalize(dst, x, w, dot(x, x), eps)
}

// AddRMSNorm computes sum = a + b and dst = RMSNorm(sum); sum may be a or b.
func AddRMSNorm(dst, sum, a, b, w []float32, eps float32) {
	checkLen("rms norm", len(dst), len(sum), len(a), len(b))
	normalize(dst, sum, w, addDot(sum, a, b), eps)
}

// LayerNorm computes dst = (x - mean) / √(variance + eps) · w + b; w and b
// may be nil. Source: arXiv 1607.06450.
func LayerNorm(dst, x, w, b []float32, eps float32) {
	checkLen("layer norm", len(dst), len(x))
	mean := sum(x) / float32(len(x))
	normalize(dst, dst, w, centre(dst, x, mean), eps)
	if b != nil {
		Add(dst, dst, b)
	}
}

func normalize(dst, x, w []float32, squares, eps float32) {
	s := float32(1 / math.Sqrt(float64(squares)/float64(len(x))+float64(eps)))
	if w == nil {
		scale(dst, x, s)
		return
	}
	checkLen("norm weights", len(dst), len(w))
	scaleMul(dst, x, w, s)
}

// ExpSum computes dst = e^(x-shift) and returns the sum of dst, accumulated in 32
// partial sums.
func ExpSum(dst, x []float32, shift float32) float32 {
	checkLen("exponential sum", len(dst), len(x))
	return expSum(dst, x, shift)
}

// Softmax computes dst[i] = e^(x[i]-max) / Σ. Values of -Inf give 0. If all are -Inf, or one is
// +Inf or NaN, the result is NaN.
func Softmax(dst, x []float32) {
	checkLen("softmax", len(dst), len(x))
	scale(dst, dst, 1/expSum(dst, x, maximum(x)))
}
