package main

import . "godwit/engine/cpu/neon"

// The functions below mirror the plain Go of package kernel, operation by
// operation. V0 is the argument and the result; V1 to V7 are temporaries.

// negExp leaves 1 + e^-x in t.
func (v *vec) negExp(k *Exp, x, t V) {
	v.N("fneg.4s", t, x)
	k.Of(t, 1)
	v.V("fadd.4s", t, t, k.One)
}

// function loads the constants of a function and returns the code that replaces
// V0 by its value.
type function func(v *vec) func()

func sigmoid(v *vec) func() {
	k := v.Exp()
	return func() {
		v.negExp(k, 0, 4)
		v.V("fdiv.4s", 0, k.One, 4)
	}
}

func silu(v *vec) func() {
	k := v.Exp()
	return func() {
		v.negExp(k, 0, 4)
		v.V("fdiv.4s", 0, 0, 4)
	}
}

func exponential(v *vec) func() {
	k := v.Exp()
	return func() { k.Of(0, 1) }
}

func gelu(v *vec) func() {
	k := v.Exp()
	in := v.Float("geluIn", 1.5957691216057307)
	cube := v.Float("geluCube", 0.07135481282747269)
	return func() {
		v.V("fmul.4s", 4, 0, 0)
		v.Horner(5, 4, cube, in)
		v.V("fmul.4s", 5, 0, 5)
		v.negExp(k, 5, 4)
		v.V("fdiv.4s", 0, 0, 4)
	}
}

func geluQuick(v *vec) func() {
	k := v.Exp()
	fast := v.Float("geluFast", 1.7019999980926513672)
	return func() {
		v.V("fmul.4s", 5, 0, fast)
		v.negExp(k, 5, 4)
		v.V("fdiv.4s", 0, 0, 4)
	}
}

// tails are the coefficients of the tail of the normal distribution, the highest first.
var tails = []struct {
	name string
	c    float32
}{
	{"tail9", -0.020628642},
	{"tail8", 0.112464696},
	{"tail7", -0.22828457},
	{"tail6", 0.191883},
	{"tail5", -0.07950893},
	{"tail4", 0.0962048},
	{"tail3", 0.07837226},
	{"tail2", 0.11023934},
	{"tail1", 0.11957132},
	{"tail0", 0.119686715},
}

// geluErf has no registers left for the coefficients and loads them each time.
func geluErf(v *vec) func() {
	k := v.Exp()
	top := v.Float("tailMax", 15)
	v.Free = 15
	step := v.Float("tailStep", 0.3)
	half := v.Float("minusHalf", -0.5)
	return func() {
		a, t, p, u, e := V(4), V(5), V(6), V(7), V(8)
		v.N("fabs.4s", a, 0)
		v.V("fmin.4s", a, a, top)
		v.Horner(t, a, step, k.One)
		v.V("fdiv.4s", t, k.One, t)
		v.tail(p, tails[0].name, tails[0].c)
		for _, c := range tails[1:] {
			v.tail(u, c.name, c.c)
			v.V("fmla.4s", u, p, t)
			p, u = u, p
		}
		low := u
		v.V("fmul.4s", e, a, a)
		v.N("fneg.4s", low, e)
		v.V("fmla.4s", low, a, a)
		v.V("fmul.4s", low, low, half)
		v.V("fmul.4s", e, e, half)
		k.Of(e, 1)
		v.V("fmul.4s", p, p, t)
		v.Horner(t, e, low, e)
		v.V("fmul.4s", p, p, t)
		v.relu()
		v.V("fmls.4s", 0, p, a)
	}
}

// tail loads a constant each time.
func (v *vec) tail(dst V, name string, c float32) {
	free := v.Free
	v.Free = dst
	v.Float(name, c)
	v.Free = free
}

// relu preserves NaN and -0, as a comparison does.
func (v *vec) relu() {
	v.N("fcmlt.0", 1, 0)
	v.V("bic.16b", 0, 0, 1)
}

func relu(v *vec) func() { return v.relu }

func relu2(v *vec) func() {
	return func() {
		v.relu()
		v.V("fmul.4s", 0, 0, 0)
	}
}

func softplus(v *vec) func() {
	k := v.Exp()
	two := v.Float("two", 2)
	a4 := v.Float("atanh4", 0.14089167)
	a3 := v.Float("atanh3", 0.139803)
	v.Free = 15
	a2 := v.Float("atanh2", 0.20012455)
	a1 := v.Float("atanh1", 0.33333158)
	return func() {
		z, s, w, p := V(4), V(5), V(6), V(7)
		v.N("fabs.4s", z, 0)
		v.N("fneg.4s", z, z)
		k.Of(z, 1)
		v.V("fadd.4s", s, z, two)
		v.V("fdiv.4s", s, z, s)
		v.V("fmul.4s", w, s, s)
		v.Horner(p, a4, w, a3)
		v.Horner(z, p, w, a2)
		v.Horner(p, z, w, a1)
		v.V("fmul.4s", p, p, w)
		v.V("fadd.4s", s, s, s)
		v.Horner(z, p, s, s)
		v.relu()
		v.V("fadd.4s", 0, 0, z)
	}
}

// tanh replaces V0 by its hyperbolic tangent.
func tanh(v *vec) func() {
	k := v.Exp()
	two := v.Float("two", 2)
	top := v.Float("tanhMax", 9.5)
	v.Free = 15
	sign := v.Bits("signBit", 0x80000000)
	return func() {
		a, s, e := V(4), V(5), V(6)
		v.N("fabs.4s", a, 0)
		v.V("fmin.4s", a, a, top)
		v.V("fadd.4s", a, a, a)
		k.MinusOne(a, 1)
		v.N("fcvtns.4s", s, 1)
		v.V("add.4s", s, s, k.Bias)
		v.Shift("shl.4s", s, s, 23)
		v.V("fsub.4s", e, s, k.One)
		v.V("fmla.4s", e, 2, s)
		v.V("fadd.4s", s, e, two)
		v.V("fdiv.4s", e, e, s)
		v.V("bif.16b", 0, e, sign)
	}
}
