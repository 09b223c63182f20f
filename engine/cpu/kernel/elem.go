package kernel

import "fmt"

// Element-wise ops. Their errors against the real function, in units in the
// last place, are: exp 1; sigmoid, SiLU, softplus and tanh 3; GELU 6 in its
// exact form; GELU in its tanh and quick forms 3, plus up to three for each
// unit of the exponent. dst may be the same slice as an input, but must not
// overlap one otherwise. All lengths must be equal.

// SiLU computes dst = x·sigmoid(x).
func SiLU(dst, x []float32) {
	checkLen("silu", len(dst), len(x))
	silus(dst, x)
}

// SiLUMul computes dst = SiLU(gate)·up.
func SiLUMul(dst, gate, up []float32) {
	checkLen("silu", len(dst), len(gate), len(up))
	siluMuls(dst, gate, up)
}

// GELU computes dst = x/2·(1 + tanh(√(2/π)·(x + 0.044715x³))).
// Source: arXiv 1606.08415, the tanh form.
func GELU(dst, x []float32) {
	checkLen("gelu", len(dst), len(x))
	gelus(dst, x)
}

// GELUMul computes dst = GELU(gate)·up.
func GELUMul(dst, gate, up []float32) {
	checkLen("gelu", len(dst), len(gate), len(up))
	geluMuls(dst, gate, up)
}

// GELUErf computes dst = x/2·(1 + erf(x/√2)).
func GELUErf(dst, x []float32) {
	checkLen("gelu", len(dst), len(x))
	geluErfs(dst, x)
}

// GELUQuick computes dst = x·sigmoid(1.702x).
func GELUQuick(dst, x []float32) {
	checkLen("gelu", len(dst), len(x))
	geluQuicks(dst, x)
}

// ReLU computes dst = max(x, 0); NaN stays NaN.
func ReLU(dst, x []float32) {
	checkLen("relu", len(dst), len(x))
	relus(dst, x)
}

// ReLU2 computes dst = max(x, 0)².
func ReLU2(dst, x []float32) {
	checkLen("relu", len(dst), len(x))
	relu2s(dst, x)
}

// Sigmoid computes dst = 1/(1 + e^-x).
func Sigmoid(dst, x []float32) {
	checkLen("sigmoid", len(dst), len(x))
	sigmoids(dst, x)
}

// Softplus computes dst = log(1 + e^x).
func Softplus(dst, x []float32) {
	checkLen("softplus", len(dst), len(x))
	softpluses(dst, x)
}

// Exp computes dst = e^x.
func Exp(dst, x []float32) {
	checkLen("exp", len(dst), len(x))
	exps(dst, x)
}

// Softcap computes dst = limit·tanh(x/limit). With limit 1 it is the hyperbolic tangent.
func Softcap(dst, x []float32, limit float32) {
	checkLen("soft cap", len(dst), len(x))
	softCap(dst, x, limit)
}

// Add computes dst = a + b.
func Add(dst, a, b []float32) {
	checkLen("add", len(dst), len(a), len(b))
	add(dst, a, b)
}

// Mul computes dst = a·b.
func Mul(dst, a, b []float32) {
	checkLen("multiply", len(dst), len(a), len(b))
	mul(dst, a, b)
}

// Scale computes dst = x·s.
func Scale(dst, x []float32, s float32) {
	checkLen("scale", len(dst), len(x))
	scale(dst, x, s)
}

// Axpy computes dst += x·s, rounded once.
func Axpy(dst, x []float32, s float32) {
	checkLen("axpy", len(dst), len(x))
	axpy(dst, x, s)
}

// Rope rotates pairs of x by the angles whose cosines and sines are cos and
// sin: (x[2i], x[2i+1]) if adjacent, else (x[i], x[i+n]) with n = len(cos). x
// has 2n values. Source: arXiv 2104.09864.
func Rope(x, cos, sin []float32, adjacent bool) {
	checkLen("rope", len(x), 2*len(cos), 2*len(sin))
	if adjacent {
		ropePairs(x, cos, sin)
	} else {
		ropeHalves(x[:len(cos)], x[len(cos):], cos, sin)
	}
}

// FromF16 widens binary16 values exactly; NaN stays NaN.
func FromF16(dst []float32, x []uint16) {
	checkLen("from f16", len(dst), len(x))
	fromF16(dst, x)
}

// ToF16 rounds to binary16 by the rule of dtype.F32ToF16.
func ToF16(dst []uint16, x []float32) {
	checkLen("to f16", len(dst), len(x))
	toF16(dst, x)
}

// FromBF16 widens bfloat16 values exactly.
func FromBF16(dst []float32, x []uint16) {
	checkLen("from bf16", len(dst), len(x))
	fromBF16(dst, x)
}

// ToBF16 rounds to bfloat16 by the rule of dtype.F32ToBF16.
func ToBF16(dst []uint16, x []float32) {
	checkLen("to bf16", len(dst), len(x))
	toBF16(dst, x)
}

func checkLen(op string, n int, others ...int) {
	for _, m := range others {
		if m != n {
			panic(fmt.Sprintf("kernel: %s of %d and %d values", op, n, m))
		}
	}
}
