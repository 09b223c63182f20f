package main

import "github.com/mmcloughlin/avo/reg"

// The functions below mirror the plain Go of package kernel, operation by
// operation. Registers 10 to 14 hold constants of the exponential. Registers 3
// to 5 are its temporaries.

func (v *vec) expConsts() {
	v.set(v.f32("expLo", -104), v.r(10))
	v.set(v.f32("expHi", 89), v.r(11))
	v.set(v.f32("magic", 12582912), v.r(12))
	v.set(v.f32("one", 1), v.r(13))
}

// split leaves n in n and the remainder in x. NaN stays NaN, because it is the
// second source.
func (v *vec) split(x, n reg.Register) {
	v.VMAXPS(x, v.r(10), x)
	v.VMINPS(x, v.r(11), x)
	v.VMOVAPS(x, n)
	v.with(v.VFMADD132PS, v.VFMADD132PS_BCST, v.f32("log2e", 1.44269504088896340736), v.r(12), n)
	v.VSUBPS(v.r(12), n, n)
	v.with(v.VFNMADD231PS, v.VFNMADD231PS_BCST, v.f32("ln2Hi", 0.693147182464599609375), n, x)
	v.with(v.VFNMADD231PS, v.VFNMADD231PS_BCST, v.f32("ln2Lo", -1.90465429995776804525e-9), n, x)
}

// minusOne leaves e^r - 1 in p.
func (v *vec) minusOne(r, p reg.Register) {
	v.set(v.f32("exp6", 0.0013814636), p)
	v.horner(v.f32("exp5", 0.00836871), r, p)
	v.horner(v.f32("exp4", 0.041668385), r, p)
	v.horner(v.f32("exp3", 0.16666521), r, p)
	v.horner(v.f32("exp2", 0.49999994), r, p)
	v.VMULPS(r, p, p)
	v.VFMADD213PS(r, r, p)
}

// exp replaces x by e^x.
func (v *vec) exp(x reg.Register) {
	n, p, t := v.r(3), v.r(4), v.r(5)
	v.split(x, n)
	v.minusOne(x, p)
	v.VADDPS(v.r(13), p, p)
	if v.wide {
		v.VSCALEFPS(n, p, x)
		return
	}
	bias := v.bits("bias", 127)
	v.VCVTPS2DQ(n, n)
	v.VPSRAD(imm(1), n, t)
	v.VPSUBD(t, n, n)
	for _, half := range []reg.Register{t, n} {
		v.VPADDD(bias, half, half)
		v.VPSLLD(imm(23), half, half)
		v.VMULPS(half, p, p)
	}
	v.VMOVAPS(p, x)
}

// tanh replaces x; register 6 is a temporary.
func (v *vec) tanh(x reg.Register) {
	n, p, s, sign := v.r(3), v.r(4), v.r(5), v.r(6)
	v.andC(v.bits("signBit", 0x80000000), x, sign)
	v.andC(v.bits("absBits", 0x7fffffff), x, x)
	v.set(v.f32("tanhMax", 9.5), p)
	v.VMINPS(x, p, x)
	v.VADDPS(x, x, x)
	v.split(x, n)
	v.minusOne(x, p)
	if v.wide {
		v.VSCALEFPS(n, v.r(13), s)
	} else {
		v.VCVTPS2DQ(n, s)
		v.VPADDD(v.bits("bias", 127), s, s)
		v.VPSLLD(imm(23), s, s)
	}
	v.VSUBPS(v.r(13), s, n)
	v.VFMADD213PS(n, s, p)
	v.addC(v.f32("two", 2), p, n)
	v.VDIVPS(n, p, x)
	v.VORPS(sign, x, x)
}

// negExp leaves 1 + e^-x in t.
func (v *vec) negExp(x, t reg.Register) {
	v.xorC(v.bits("signBit", 0x80000000), x, t)
	v.exp(t)
	v.VADDPS(v.r(13), t, t)
}

func (v *vec) sigmoid(x reg.Register) {
	v.negExp(x, v.r(6))
	v.VDIVPS(v.r(6), v.r(13), x)
}

func (v *vec) silu(x reg.Register) {
	v.negExp(x, v.r(6))
	v.VDIVPS(v.r(6), x, x)
}

func (v *vec) gelu(x reg.Register) {
	u := v.r(7)
	v.VMULPS(x, x, u)
	v.set(v.f32("geluIn", 1.5957691216057307), v.r(6))
	v.with(v.VFMADD132PS, v.VFMADD132PS_BCST, v.f32("geluCube", 0.07135481282747269), v.r(6), u)
	v.VMULPS(u, x, u)
	v.negExp(u, v.r(6))
	v.VDIVPS(v.r(6), x, x)
}

func (v *vec) geluQuick(x reg.Register) {
	v.mulC(v.f32("geluFast", 1.7019999980926513672), x, v.r(7))
	v.negExp(v.r(7), v.r(6))
	v.VDIVPS(v.r(6), x, x)
}

func (v *vec) geluErf(x reg.Register) {
	a, t, p, e := v.r(2), v.r(6), v.r(7), v.r(8)
	v.andC(v.bits("absBits", 0x7fffffff), x, a)
	v.set(v.f32("tailMax", 15), t)
	v.VMINPS(a, t, a)
	v.VMOVAPS(a, t)
	v.with(v.VFMADD132PS, v.VFMADD132PS_BCST, v.f32("tailStep", 0.3), v.r(13), t)
	v.VDIVPS(t, v.r(13), t)
	v.set(v.f32("tail9", -0.020628642), p)
	for _, c := range []struct {
		name string
		c    float32
	}{
		{"tail8", 0.112464696},
		{"tail7", -0.22828457},
		{"tail6", 0.191883},
		{"tail5", -0.07950893},
		{"tail4", 0.0962048},
		{"tail3", 0.07837226},
		{"tail2", 0.11023934},
		{"tail1", 0.11957132},
		{"tail0", 0.119686715},
	} {
		v.horner(v.f32(c.name, c.c), t, p)
	}
	half := v.f32("minusHalf", -0.5)
	low := v.r(9)
	v.VMULPS(a, a, e)
	v.VMOVAPS(a, low)
	v.VFMSUB213PS(e, a, low)
	v.mulC(half, low, low)
	v.mulC(half, e, e)
	v.exp(e)
	v.VFMADD213PS(e, e, low)
	v.VMULPS(t, p, p)
	v.VMULPS(low, p, p)
	v.relu(x)
	v.VFNMADD231PS(p, a, x)
}

func (v *vec) relu(x reg.Register) {
	v.zero(v.r(3))
	v.VMAXPS(x, v.r(3), x)
}

func (v *vec) relu2(x reg.Register) {
	v.relu(x)
	v.VMULPS(x, x, x)
}

func (v *vec) softplus(x reg.Register) {
	z, s, w, p := v.r(6), v.r(7), v.r(8), v.r(9)
	v.with(v.VORPS, v.VORPS_BCST, v.bits("signBit", 0x80000000), x, z)
	v.exp(z)
	v.addC(v.f32("two", 2), z, s)
	v.VDIVPS(s, z, s)
	v.VMULPS(s, s, w)
	v.set(v.f32("atanh4", 0.14089167), p)
	v.horner(v.f32("atanh3", 0.139803), w, p)
	v.horner(v.f32("atanh2", 0.20012455), w, p)
	v.horner(v.f32("atanh1", 0.33333158), w, p)
	v.VMULPS(w, p, p)
	v.VADDPS(s, s, s)
	v.VFMADD213PS(s, s, p)
	v.relu(x)
	v.VADDPS(p, x, x)
}
