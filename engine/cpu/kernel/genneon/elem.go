package main

import (
	"fmt"
	"strings"

	. "godwit/engine/cpu/neon"
)

// elemOp is an element-wise kernel: the Go signature of its function in package
// kernel, and its doc comment. The kernel processes whole vectors, and plain Go
// does the rest.
type elemOp struct {
	name string
	sig  string // parameters
	doc  string
	sum  bool // adds to 32 partial sums and returns their sum
	emit func(*vec)
}

// params returns the names and types of the parameters.
func (o elemOp) params() (names, kinds []string) {
	for p := range strings.SplitSeq(o.sig, ",") {
		name, kind, ok := strings.Cut(strings.TrimSpace(p), " ")
		names = append(names, name)
		for ok && len(kinds) < len(names) {
			kinds = append(kinds, kind)
		}
	}
	return names, kinds
}

// kernelSig returns the signature of the assembly function: pointers for slices, and then the
// number of values.
func (o elemOp) kernelSig() string {
	var parts []string
	if o.sum {
		parts = append(parts, "s *[32]float32")
	}
	names, kinds := o.params()
	var rest []string
	for i, n := range names {
		if elem, ok := strings.CutPrefix(kinds[i], "[]"); ok {
			parts = append(parts, n+" *"+elem)
		} else {
			rest = append(rest, n+" "+kinds[i])
		}
	}
	parts = append(parts, "n int")
	return "(" + strings.Join(append(parts, rest...), ", ") + ")"
}

func unary(name, doc string, f function) elemOp {
	return elemOp{name, "dst, x []float32", doc, false, func(v *vec) {
		body := f(v)
		v.each(func(disp int) {
			v.Load(0, R1, disp)
			body()
			v.Store(0, R0, disp)
		}, R0, R1)
	}}
}

func gated(name, doc string, f function) elemOp {
	return elemOp{name, "dst, gate, up []float32", doc, false, func(v *vec) {
		body := f(v)
		v.each(func(disp int) {
			v.Load(0, R1, disp)
			body()
			v.Load(1, R2, disp)
			v.V("fmul.4s", 0, 0, 1)
			v.Store(0, R0, disp)
		}, R0, R1, R2)
	}}
}

func pointwise(name, doc, op string) elemOp {
	return elemOp{name, "dst, a, b []float32", doc, false, func(v *vec) {
		v.eachFast(func(disp int) {
			v.Load(0, R1, disp)
			v.Load(1, R2, disp)
			v.V(op, 0, 0, 1)
			v.Store(0, R0, disp)
		}, R0, R1, R2)
	}}
}

var elemOps = []elemOp{
	unary("silus", "computes x/(1+e^-x).", silu),
	unary("gelus", "computes the tanh form of GELU.", gelu),
	unary("geluErfs", "computes GELU.", geluErf),
	unary("geluQuicks", "computes x·sigmoid(1.702x).", geluQuick),
	unary("relus", "computes max(x, 0).", relu),
	unary("relu2s", "computes max(x, 0)².", relu2),
	unary("sigmoids", "computes 1/(1+e^-x).", sigmoid),
	unary("softpluses", "computes log(1+e^x).", softplus),
	unary("exps", "computes e^x.", exponential),
	gated("siluMuls", "computes SiLU(gate)·up.", silu),
	gated("geluMuls", "computes GELU(gate)·up.", gelu),
	pointwise("add", "computes a + b.", "fadd.4s"),
	pointwise("mul", "computes a·b.", "fmul.4s"),
	{"softCap", "dst, x []float32, limit float32", "computes limit·tanh(x/limit).", false, softCap},
	{"scale", "dst, x []float32, s float32", "computes x·s.", false, scale},
	{"scaleMul", "dst, x, w []float32, s float32", "computes x·s·w.", false, scaleMul},
	{"axpy", "dst, x []float32, s float32", "adds x·s.", false, axpy},
	{"ropeHalves", "lo, hi, cos, sin []float32", "rotates the pairs (lo[i], hi[i]).", false, ropeHalves},
	{"dot", "a, b []float32", "sums a·b.", true, dot},
	{"sum", "x []float32", "sums x.", true, sum},
	{"expSum", "dst, x []float32, shift float32", "computes e^(x-shift) and sums it.", true, expSum},
	{"centre", "dst, x []float32, mean float32", "computes x-mean and sums its squares.", true, centre},
	{"addDot", "dst, a, b []float32", "computes a+b and sums its squares.", true, addDot},
}

func elements(f *File) {
	for _, o := range elemOps {
		v := &vec{Constants{File: f, Free: 31}}
		v.Func(o.name+"NEON", o.kernelSig(), o.doc+" n is a multiple of "+map[bool]string{false: "four.", true: "32."}[o.sum], 0)
		names, kinds := o.params()
		r := R0
		if o.sum {
			v.Arg("s", r)
			r++
		}
		for i, n := range names {
			if strings.HasPrefix(kinds[i], "[]") {
				v.Arg(n, r)
				r++
			}
		}
		v.Arg("n", R9)
		o.emit(v)
		v.Ret()
	}
}

// elementChoice writes the callers of the kernels.
func elementChoice() string {
	var b strings.Builder
	b.WriteString("package kernel\n\nimport \"godwit/engine/cpu/kernel/asm\"\n")
	for _, o := range elemOps {
		names, kinds := o.params()
		var whole, scalars, rest []string
		first := ""
		for i, n := range names {
			if strings.HasPrefix(kinds[i], "[]") {
				whole = append(whole, fmt.Sprintf("&%s[0]", n))
				rest = append(rest, n+"[n:]")
				if first == "" {
					first = n
				}
			} else {
				scalars = append(scalars, n)
				rest = append(rest, n)
			}
		}
		whole = append(append(whole, "n"), scalars...)
		ret := ""
		if o.sum {
			ret = "float32 "
		}
		fmt.Fprintf(&b, "\nfunc %s(%s) %s{\n", o.name, o.sig, ret)
		if o.sum {
			b.WriteString("var part [lanes]float32\n")
			fmt.Fprintf(&b, "n := vectors(len(%s), lanes)\nif n > 0 {\nasm.%sNEON(&part, %s)\n}\n", first, Exported(o.name), strings.Join(whole, ", "))
			fmt.Fprintf(&b, "return %sRest(&part, %s)\n}\n", o.name, strings.Join(rest, ", "))
			continue
		}
		fmt.Fprintf(&b, "n := vectors(len(%s), 4)\nif n > 0 {\nasm.%sNEON(%s)\n}\n", first, Exported(o.name), strings.Join(whole, ", "))
		fmt.Fprintf(&b, "%sGeneric(%s)\n}\n", o.name, strings.Join(rest, ", "))
	}
	return b.String()
}

func softCap(v *vec) {
	body := tanh(v)
	v.Scalar("limit", 8)
	v.each(func(disp int) {
		v.Load(0, R1, disp)
		v.V("fdiv.4s", 0, 0, 8)
		body()
		v.V("fmul.4s", 0, 0, 8)
		v.Store(0, R0, disp)
	}, R0, R1)
}

func scale(v *vec) {
	v.Scalar("s", 8)
	v.eachFast(func(disp int) {
		v.Load(0, R1, disp)
		v.V("fmul.4s", 0, 0, 8)
		v.Store(0, R0, disp)
	}, R0, R1)
}

func scaleMul(v *vec) {
	v.Scalar("s", 8)
	v.eachFast(func(disp int) {
		v.Load(0, R1, disp)
		v.Load(1, R2, disp)
		v.V("fmul.4s", 0, 0, 8)
		v.V("fmul.4s", 0, 0, 1)
		v.Store(0, R0, disp)
	}, R0, R1, R2)
}

func axpy(v *vec) {
	v.Scalar("s", 8)
	v.eachFast(func(disp int) {
		v.Load(0, R1, disp)
		v.Load(1, R0, disp)
		v.V("fmla.4s", 1, 0, 8)
		v.Store(1, R0, disp)
	}, R0, R1)
}

// rotate rotates (V0, V1) by cosines and sines in V2 and V3, into V4 and V5.
func (v *vec) rotate() {
	v.V("fmul.4s", 4, 1, 3)
	v.N("fneg.4s", 4, 4)
	v.V("fmla.4s", 4, 0, 2)
	v.V("fmul.4s", 5, 0, 3)
	v.V("fmla.4s", 5, 1, 2)
}

func ropeHalves(v *vec) {
	v.each(func(disp int) {
		for i := range 4 {
			v.Load(V(i), R(i), disp)
		}
		v.rotate()
		v.Store(4, R0, disp)
		v.Store(5, R1, disp)
	}, R0, R1, R2, R3)
}

func dot(v *vec) {
	v.reduce(func(acc V, disp int) {
		v.Load(0, R1, disp)
		v.Load(1, R2, disp)
		v.V("fmla.4s", acc, 0, 1)
	}, R1, R2)
}

func sum(v *vec) {
	v.reduce(func(acc V, disp int) {
		v.Load(0, R1, disp)
		v.V("fadd.4s", acc, acc, 0)
	}, R1)
}

func expSum(v *vec) {
	k := v.Exp()
	v.Scalar("shift", 7)
	v.reduce(func(acc V, disp int) {
		v.Load(0, R2, disp)
		v.V("fsub.4s", 0, 0, 7)
		k.Of(0, 1)
		v.Store(0, R1, disp)
		v.V("fadd.4s", acc, acc, 0)
	}, R1, R2)
}

func centre(v *vec) {
	v.Scalar("mean", 7)
	v.reduce(func(acc V, disp int) {
		v.Load(0, R2, disp)
		v.V("fsub.4s", 0, 0, 7)
		v.Store(0, R1, disp)
		v.V("fmla.4s", acc, 0, 0)
	}, R1, R2)
}

func addDot(v *vec) {
	v.reduce(func(acc V, disp int) {
		v.Load(0, R2, disp)
		v.Load(1, R3, disp)
		v.V("fadd.4s", 0, 0, 1)
		v.Store(0, R1, disp)
		v.V("fmla.4s", acc, 0, 0)
	}, R1, R2, R3)
}
