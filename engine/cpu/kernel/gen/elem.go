package main

import (
	"strings"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// elemOp is an element-wise kernel: its Go signature and its doc comment.
type elemOp struct {
	name string
	sig  string // parameters
	ret  string // result
	doc  string
	emit func(*vec)
}

// params lists the parameter names of a signature.
func (o elemOp) params() []string {
	var names []string
	for _, p := range strings.Split(o.sig, ",") {
		names = append(names, strings.Fields(p)[0])
	}
	return names
}

func elem512(a *asm) { elems(newVec(a, true)) }
func elem2(a *asm)   { elems(newVec(a, false)) }

func elems(v *vec) {
	for _, o := range elemOps {
		v.fn(o.name+v.tier(), "("+o.sig+") "+o.ret, o.doc)
		o.emit(v)
		v.VZEROUPPER()
		v.RET()
	}
}

var pointers = []reg.Register{reg.RDI, reg.RSI, reg.RDX, reg.RBX}

// slices loads the base of each slice and the length of the first into CX.
func (v *vec) slices(names ...string) {
	for i, s := range names {
		v.Load(v.Param(s).Base(), pointers[i])
	}
	v.Load(v.Param(names[0]).Len(), reg.RCX)
}

// scalar broadcasts a float parameter.
func (v *vec) scalar(name string, dst reg.Register) { v.VBROADCASTSS(v.arg(name), dst) }

const one = "dst, x []float32"

func unary(name, doc string, f func(*vec, reg.Register)) elemOp {
	return elemOp{name, one, "", doc, func(v *vec) {
		v.slices("dst", "x")
		v.expConsts()
		v.loop(func() {
			v.load(reg.RSI, 0, v.r(0))
			f(v, v.r(0))
			v.store(v.r(0), reg.RDI, 0)
		}, reg.RDI, reg.RSI)
	}}
}

func gated(name, doc string, f func(*vec, reg.Register)) elemOp {
	return elemOp{name, "dst, gate, up []float32", "", doc, func(v *vec) {
		v.slices("dst", "gate", "up")
		v.expConsts()
		v.loop(func() {
			v.load(reg.RSI, 0, v.r(0))
			f(v, v.r(0))
			v.load(reg.RDX, 0, v.r(1))
			v.VMULPS(v.r(1), v.r(0), v.r(0))
			v.store(v.r(0), reg.RDI, 0)
		}, reg.RDI, reg.RSI, reg.RDX)
	}}
}

func binary(name, doc string, f func(*vec) func(...Op)) elemOp {
	return elemOp{name, "dst, a, b []float32", "", doc, func(v *vec) {
		v.slices("dst", "a", "b")
		v.loop(func() {
			v.load(reg.RSI, 0, v.r(0))
			v.load(reg.RDX, 0, v.r(1))
			f(v)(v.r(1), v.r(0), v.r(0))
			v.store(v.r(0), reg.RDI, 0)
		}, reg.RDI, reg.RSI, reg.RDX)
	}}
}

var elemOps = []elemOp{
	unary("silus", "computes x/(1+e^-x).", (*vec).silu),
	unary("gelus", "computes the tanh form of GELU.", (*vec).gelu),
	unary("geluErfs", "computes GELU.", (*vec).geluErf),
	unary("geluQuicks", "computes x·sigmoid(1.702x).", (*vec).geluQuick),
	unary("relus", "computes max(x, 0).", (*vec).relu),
	unary("relu2s", "computes max(x, 0)².", (*vec).relu2),
	unary("sigmoids", "computes 1/(1+e^-x).", (*vec).sigmoid),
	unary("softpluses", "computes log(1+e^x).", (*vec).softplus),
	unary("exps", "computes e^x.", (*vec).exp),
	gated("siluMuls", "computes SiLU(gate)·up.", (*vec).silu),
	gated("geluMuls", "computes GELU(gate)·up.", (*vec).gelu),
	binary("add", "computes a + b.", func(v *vec) func(...Op) { return v.VADDPS }),
	binary("mul", "computes a·b.", func(v *vec) func(...Op) { return v.VMULPS }),
	{"softCap", "dst, x []float32, limit float32", "", "computes limit·tanh(x/limit).", softCap},
	{"scale", "dst, x []float32, s float32", "", "computes x·s.", scale},
	{"scaleMul", "dst, x, w []float32, s float32", "", "computes x·s·w.", scaleMul},
	{"axpy", "dst, x []float32, s float32", "", "adds x·s.", axpy},
	{"ropeHalves", "lo, hi, cos, sin []float32", "", "rotates the pairs (lo[i], hi[i]).", ropeHalves},
	{"dot", "a, b []float32", "float32", "sums a·b.", dot},
	{"sum", "x []float32", "float32", "sums x.", sum},
	{"expSum", "dst, x []float32, shift float32", "float32", "computes e^(x-shift) and sums it.", expSum},
	{"centre", "dst, x []float32, mean float32", "float32", "computes x-mean and sums its squares.", centre},
	{"addDot", "dst, a, b []float32", "float32", "computes a+b and sums its squares.", addDot},
	{"rowSum", "dst, s, w []float32, stride int", "", "sums rows of s times w.", rowSum},
	{"rowStep", "out, s, d, q, k []float32, stride int, decay float32", "", "decays rows of s, adds k·d and sums them times q.", rowStep},
}

func softCap(v *vec) {
	v.slices("dst", "x")
	v.expConsts()
	v.scalar("limit", v.r(14))
	v.loop(func() {
		v.load(reg.RSI, 0, v.r(0))
		v.VDIVPS(v.r(14), v.r(0), v.r(0))
		v.tanh(v.r(0))
		v.VMULPS(v.r(14), v.r(0), v.r(0))
		v.store(v.r(0), reg.RDI, 0)
	}, reg.RDI, reg.RSI)
}

func scale(v *vec) {
	v.slices("dst", "x")
	v.scalar("s", v.r(14))
	v.loop(func() {
		v.load(reg.RSI, 0, v.r(0))
		v.VMULPS(v.r(14), v.r(0), v.r(0))
		v.store(v.r(0), reg.RDI, 0)
	}, reg.RDI, reg.RSI)
}

func scaleMul(v *vec) {
	v.slices("dst", "x", "w")
	v.scalar("s", v.r(14))
	v.loop(func() {
		v.load(reg.RSI, 0, v.r(0))
		v.load(reg.RDX, 0, v.r(1))
		v.VMULPS(v.r(14), v.r(0), v.r(0))
		v.VMULPS(v.r(1), v.r(0), v.r(0))
		v.store(v.r(0), reg.RDI, 0)
	}, reg.RDI, reg.RSI, reg.RDX)
}

func axpy(v *vec) {
	v.slices("dst", "x")
	v.scalar("s", v.r(14))
	v.loop(func() {
		v.load(reg.RSI, 0, v.r(0))
		v.load(reg.RDI, 0, v.r(1))
		v.VFMADD231PS(v.r(14), v.r(0), v.r(1))
		v.store(v.r(1), reg.RDI, 0)
	}, reg.RDI, reg.RSI)
}

func ropeHalves(v *vec) {
	v.slices("lo", "hi", "cos", "sin")
	lo, hi, cos, sin, t, u := v.r(0), v.r(1), v.r(2), v.r(3), v.r(4), v.r(5)
	v.loop(func() {
		v.load(reg.RDI, 0, lo)
		v.load(reg.RSI, 0, hi)
		v.load(reg.RDX, 0, cos)
		v.load(reg.RBX, 0, sin)
		v.VMULPS(sin, hi, t)
		v.VMULPS(sin, lo, u)
		v.VFMSUB213PS(t, cos, lo)
		v.VFMADD213PS(u, cos, hi)
		v.store(lo, reg.RDI, 0)
		v.store(hi, reg.RSI, 0)
	}, reg.RDI, reg.RSI, reg.RDX, reg.RBX)
}

func dot(v *vec) {
	v.slices("a", "b")
	v.reduce(v.accs(), func(acc reg.Register, disp int) {
		v.load(reg.RDI, disp, v.r(0))
		v.load(reg.RSI, disp, v.r(1))
		v.VFMADD231PS(v.r(1), v.r(0), acc)
	}, reg.RDI, reg.RSI)
}

func sum(v *vec) {
	v.slices("x")
	v.reduce(v.accs(), func(acc reg.Register, disp int) {
		v.load(reg.RDI, disp, v.r(0))
		v.VADDPS(v.r(0), acc, acc)
	}, reg.RDI)
}

func expSum(v *vec) {
	v.slices("dst", "x")
	v.expConsts()
	v.scalar("shift", v.r(14))
	acc := v.bank[6:10]
	if v.wide {
		acc = v.bank[8:10]
	}
	v.reduce(acc, func(acc reg.Register, disp int) {
		v.load(reg.RSI, disp, v.r(0))
		v.VSUBPS(v.r(14), v.r(0), v.r(0))
		v.exp(v.r(0))
		v.keep(v.r(0))
		v.store(v.r(0), reg.RDI, disp)
		v.VADDPS(v.r(0), acc, acc)
	}, reg.RDI, reg.RSI)
}

func centre(v *vec) {
	v.slices("dst", "x")
	v.scalar("mean", v.r(14))
	v.reduce(v.accs(), func(acc reg.Register, disp int) {
		v.load(reg.RSI, disp, v.r(0))
		v.VSUBPS(v.r(14), v.r(0), v.r(0))
		v.keep(v.r(0))
		v.store(v.r(0), reg.RDI, disp)
		v.VFMADD231PS(v.r(0), v.r(0), acc)
	}, reg.RDI, reg.RSI)
}

func addDot(v *vec) {
	v.slices("dst", "a", "b")
	v.reduce(v.accs(), func(acc reg.Register, disp int) {
		v.load(reg.RSI, disp, v.r(0))
		v.load(reg.RDX, disp, v.r(1))
		v.VADDPS(v.r(1), v.r(0), v.r(0))
		v.store(v.r(0), reg.RDI, disp)
		v.VFMADD231PS(v.r(0), v.r(0), acc)
	}, reg.RDI, reg.RSI, reg.RDX)
}
