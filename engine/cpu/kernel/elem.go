package kernel

import "fmt"

// Element-wise ops: dst may be the same slice as an input, and must not
// overlap one otherwise. Lengths must agree.

// Func is a function of one value.
type Func uint8

// The functions of [Apply] and [ApplyMul]. Bounds are of the float32 result
// against the real function, from the exhaustive test, in units in the last place.
const (
	SiLU      Func = iota // x·sigmoid(x)
	GELU                  // x/2·(1 + tanh(√(2/π)(x + 0.044715x³)))
	GELUQuick             // x·sigmoid(1.702x)
	ReLU                  // max(x, 0)
	ReLU2                 // max(x, 0)²
	Sigmoid               // 1/(1 + e^-x)
	Softplus              // log(1 + e^x)
	Exp                   // e^x
	Tanh                  // hyperbolic tangent
	funcs
)

var funcNames = [funcs]string{"silu", "gelu", "gelu-quick", "relu", "relu2", "sigmoid", "softplus", "exp", "tanh"}

func (f Func) String() string {
	if f < funcs {
		return funcNames[f]
	}
	return fmt.Sprintf("func %d", uint8(f))
}

// Apply computes dst[i] = f(x[i]).
func Apply(f Func, dst, x []float32) {
	checkLen("apply", len(dst), len(x))
	apply(f, dst, x)
}

// ApplyMul computes dst[i] = f(gate[i])·up[i].
func ApplyMul(f Func, dst, gate, up []float32) {
	checkLen("apply and multiply", len(dst), len(gate), len(up))
	applyMul(f, dst, gate, up)
}

// SoftCap computes dst[i] = limit·tanh(x[i]/limit).
func SoftCap(dst, x []float32, limit float32) {
	checkLen("soft cap", len(dst), len(x))
	softCap(dst, x, limit)
}

// Add computes dst[i] = a[i] + b[i].
func Add(dst, a, b []float32) {
	checkLen("add", len(dst), len(a), len(b))
	add(dst, a, b)
}

// Mul computes dst[i] = a[i]·b[i].
func Mul(dst, a, b []float32) {
	checkLen("multiply", len(dst), len(a), len(b))
	mul(dst, a, b)
}

// Scale computes dst[i] = x[i]·s.
func Scale(dst, x []float32, s float32) {
	checkLen("scale", len(dst), len(x))
	scale(dst, x, s)
}

// Axpy computes dst[i] = fma(x[i], s, dst[i]).
func Axpy(dst, x []float32, s float32) {
	checkLen("axpy", len(dst), len(x))
	axpy(dst, x, s)
}

// RoPEPairs turns adjacent pairs: (x[2i], x[2i+1]) by the angle whose cosine and sine are
// cos[i] and sin[i]. x has 2·len(cos) values.
func RoPEPairs(x, cos, sin []float32) {
	checkLen("rope", len(x), 2*len(cos), 2*len(sin))
	ropePairs(x, cos, sin)
}

// RoPEHalves turns the pairs (x[i], x[i+n/2]).
func RoPEHalves(x, cos, sin []float32) {
	checkLen("rope", len(x), 2*len(cos), 2*len(sin))
	ropeHalves(x[:len(cos)], x[len(cos):], cos, sin)
}

// FromF16 widens binary16 values. Exact; a NaN stays a NaN.
func FromF16(dst []float32, x []uint16) {
	checkLen("from f16", len(dst), len(x))
	fromF16(dst, x)
}

// ToF16 rounds to binary16 by the rule of dtype.F32ToF16.
func ToF16(dst []uint16, x []float32) {
	checkLen("to f16", len(dst), len(x))
	toF16(dst, x)
}

// FromBF16 widens bfloat16 values. Exact.
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
