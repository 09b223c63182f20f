package main

import . "godwit/engine/cpu/neon"

// The functions below mirror the plain Go of package kernel, operation by
// operation. V0 is the argument and the result; V1 to V7 are temporaries.

// expConsts are the constants of the exponential.
type expConsts struct {
	lo, hi, magic, log2e, ln2Hi, ln2Lo, e2, e3, e4, e5, e6, one, bias V
}

func (v *vec) expConsts() *expConsts {
	return &expConsts{
		lo:    v.constant("expLo", -104),
		hi:    v.constant("expHi", 89),
		magic: v.constant("magic", 12582912),
		log2e: v.constant("log2e", 1.44269504088896340736),
		ln2Hi: v.constant("ln2Hi", 0.693147182464599609375),
		ln2Lo: v.constant("ln2Lo", -1.90465429995776804525e-9),
		e2:    v.constant("exp2", 0.49999994),
		e3:    v.constant("exp3", 0.16666521),
		e4:    v.constant("exp4", 0.041668385),
		e5:    v.constant("exp5", 0.00836871),
		e6:    v.constant("exp6", 0.0013814636),
		one:   v.constant("one", 1),
		bias:  v.bits("bias", 127),
	}
}

// minusOne splits x into n and r, and leaves e^r - 1 in V2; n is in V1, x becomes r.
func (v *vec) minusOne(k *expConsts, x V) {
	n, p, t := V(1), V(2), V(3)
	v.V("fmax.4s", x, x, k.lo)
	v.V("fmin.4s", x, x, k.hi)
	v.horner(n, x, k.log2e, k.magic)
	v.V("fsub.4s", n, n, k.magic)
	v.V("fmls.4s", x, n, k.ln2Hi)
	v.V("fmls.4s", x, n, k.ln2Lo)
	v.horner(p, k.e6, x, k.e5)
	v.horner(t, p, x, k.e4)
	v.horner(p, t, x, k.e3)
	v.horner(t, p, x, k.e2)
	v.V("fmul.4s", t, t, x)
	v.horner(p, t, x, x)
}

// exp replaces x by e^x.
func (v *vec) exp(k *expConsts, x V) {
	n, p, t := V(1), V(2), V(3)
	v.minusOne(k, x)
	v.V("fadd.4s", p, p, k.one)
	v.N("fcvtns.4s", n, n)
	v.Shift("sshr.4s", t, n, 1)
	v.V("sub.4s", n, n, t)
	for _, half := range []V{t, n} {
		v.V("add.4s", half, half, k.bias)
		v.Shift("shl.4s", half, half, 23)
		v.V("fmul.4s", p, p, half)
	}
	v.Move(x, p)
}

// negExp leaves 1 + e^-x in t.
func (v *vec) negExp(k *expConsts, x, t V) {
	v.N("fneg.4s", t, x)
	v.exp(k, t)
	v.V("fadd.4s", t, t, k.one)
}

// function is a function of a vector: set-up loads constants and returns what
// replaces V0.
type function func(v *vec) func()

func sigmoid(v *vec) func() {
	k := v.expConsts()
	return func() {
		v.negExp(k, 0, 4)
		v.V("fdiv.4s", 0, k.one, 4)
	}
}

func silu(v *vec) func() {
	k := v.expConsts()
	return func() {
		v.negExp(k, 0, 4)
		v.V("fdiv.4s", 0, 0, 4)
	}
}

func exponential(v *vec) func() {
	k := v.expConsts()
	return func() { v.exp(k, 0) }
}

func gelu(v *vec) func() {
	k := v.expConsts()
	in := v.constant("geluIn", 1.5957691216057307)
	cube := v.constant("geluCube", 0.07135481282747269)
	return func() {
		v.V("fmul.4s", 4, 0, 0)
		v.horner(5, 4, cube, in)
		v.V("fmul.4s", 5, 0, 5)
		v.negExp(k, 5, 4)
		v.V("fdiv.4s", 0, 0, 4)
	}
}

func geluQuick(v *vec) func() {
	k := v.expConsts()
	fast := v.constant("geluFast", 1.7019999980926513672)
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

// geluErf keeps the constants of the tail in V8 to V15, and the last two with
// the others: R20 and R21 point at what has no register.
func geluErf(v *vec) func() {
	k := v.expConsts()
	top := v.constant("tailMax", 15)
	v.free = 15
	step := v.constant("tailStep", 0.3)
	half := v.constant("minusHalf", -0.5)
	return func() {
		a, t, p, u, e := V(4), V(5), V(6), V(7), V(8)
		v.N("fabs.4s", a, 0)
		v.V("fmin.4s", a, a, top)
		v.horner(t, a, step, k.one)
		v.V("fdiv.4s", t, k.one, t)
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
		v.exp(k, e)
		v.V("fmul.4s", p, p, t)
		v.horner(t, e, low, e)
		v.V("fmul.4s", p, p, t)
		v.relu()
		v.V("fmls.4s", 0, p, a)
	}
}

// tail loads a constant each time.
func (v *vec) tail(dst V, name string, c float32) {
	free := v.free
	v.free = int(dst)
	v.constant(name, c)
	v.free = free
}

// relu keeps NaN and -0, as comparing does.
func (v *vec) relu() {
	v.N("fcmlt.4s", 1, 0)
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
	k := v.expConsts()
	two := v.constant("two", 2)
	a4 := v.constant("atanh4", 0.14089167)
	a3 := v.constant("atanh3", 0.139803)
	v.free = 15
	a2 := v.constant("atanh2", 0.20012455)
	a1 := v.constant("atanh1", 0.33333158)
	return func() {
		z, s, w, p := V(4), V(5), V(6), V(7)
		v.N("fabs.4s", z, 0)
		v.N("fneg.4s", z, z)
		v.exp(k, z)
		v.V("fadd.4s", s, z, two)
		v.V("fdiv.4s", s, z, s)
		v.V("fmul.4s", w, s, s)
		v.horner(p, a4, w, a3)
		v.horner(z, p, w, a2)
		v.horner(p, z, w, a1)
		v.V("fmul.4s", p, p, w)
		v.V("fadd.4s", s, s, s)
		v.horner(z, p, s, s)
		v.relu()
		v.V("fadd.4s", 0, 0, z)
	}
}

// tanh is of V0.
func tanh(v *vec) func() {
	k := v.expConsts()
	two := v.constant("two", 2)
	top := v.constant("tanhMax", 9.5)
	v.free = 15
	sign := v.bits("signBit", 0x80000000)
	return func() {
		a, s, e := V(4), V(5), V(6)
		v.N("fabs.4s", a, 0)
		v.V("fmin.4s", a, a, top)
		v.V("fadd.4s", a, a, a)
		v.minusOne(k, a)
		v.N("fcvtns.4s", s, 1)
		v.V("add.4s", s, s, k.bias)
		v.Shift("shl.4s", s, s, 23)
		v.V("fsub.4s", e, s, k.one)
		v.V("fmla.4s", e, 2, s)
		v.V("fadd.4s", s, e, two)
		v.V("fdiv.4s", e, e, s)
		v.V("bif.16b", 0, e, sign)
	}
}
