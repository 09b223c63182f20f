package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// vec writes element-wise kernels once for both tiers. A vector is a ZMM
// register with AVX-512 and a YMM register with AVX2. Operand order is Go's:
// sources reversed, destination last.
type vec struct {
	*asm
	wide  bool
	tail  bool // loads and stores are masked
	lanes int
	bank  []reg.Register
	preds []reg.Register
}

// K1 (AVX-512) or Y15 (AVX2) is the mask of the tail.
var tailMask = reg.Y15

func newVec(a *asm, wide bool) *vec {
	if wide {
		return &vec{asm: a, wide: true, lanes: 16, bank: zs[:]}
	}
	return &vec{asm: a, lanes: 8, bank: ys[:]}
}

func (v *vec) tier() string {
	if v.wide {
		return "AVX512"
	}
	return "AVX2"
}

// r returns a vector register. Numbers below 15 work in both tiers.
func (v *vec) r(i int) reg.Register { return v.bank[i] }

func (v *vec) bytes() int { return 4 * v.lanes }

// load reads a vector at disp(base).
func (v *vec) load(base reg.Register, disp int, dst reg.Register) {
	switch {
	case !v.tail:
		v.VMOVUPS(at(base, disp), dst)
	case v.wide:
		v.VMOVUPS_Z(at(base, disp), reg.K1, dst)
	default:
		v.VMASKMOVPS(at(base, disp), tailMask, dst)
	}
}

func (v *vec) store(src, base reg.Register, disp int) {
	switch {
	case !v.tail:
		v.VMOVUPS(src, at(base, disp))
	case v.wide:
		v.VMOVUPS(src, reg.K1, at(base, disp))
	default:
		v.VMASKMOVPS(src, tailMask, at(base, disp))
	}
}

// keep zeroes the lanes that are not in the tail.
func (v *vec) keep(r reg.Register) {
	switch {
	case !v.tail:
	case v.wide:
		v.VMOVAPS_Z(r, reg.K1, r)
	default:
		v.VANDPS(tailMask, r, r)
	}
}

// mask makes the tail mask for min(CX, lanes) values. CX is at least 1.
func (v *vec) mask() {
	if v.wide {
		v.MOVL(U32(0xffff), reg.EAX)
		v.BZHIL(reg.ECX, reg.EAX, reg.EAX)
		v.KMOVW(reg.EAX, reg.K1)
		return
	}
	var parts []Constant
	for i := range 16 {
		parts = append(parts, U32(uint32(0xffffffff)*uint32((16-i-1)/8)))
	}
	v.MOVL(U32(8), reg.EAX)
	v.CMPQ(reg.RCX, reg.RAX)
	v.CMOVQLT(reg.RCX, reg.RAX)
	v.NEGQ(reg.RAX)
	v.LEAQ(v.constant("tails", parts...), reg.R11)
	v.VMOVUPS(mem(reg.R11, reg.RAX, 4, 32), tailMask)
}

// bits returns the operand for a constant: a broadcast with AVX-512, 32 bytes
// with AVX2.
func (v *vec) bits(name string, b uint32) Mem {
	if v.wide {
		return v.word(name, b)
	}
	return v.fill(name, b)
}

func (v *vec) f32(name string, f float32) Mem { return v.bits(name, math.Float32bits(f)) }

// with applies an instruction whose last source is a constant.
func (v *vec) with(plain, bcst func(...Op), c Mem, ops ...Op) {
	ops = append([]Op{c}, ops...)
	if v.wide {
		bcst(ops...)
	} else {
		plain(ops...)
	}
}

func (v *vec) mulC(c Mem, a, dst reg.Register) { v.with(v.VMULPS, v.VMULPS_BCST, c, a, dst) }
func (v *vec) addC(c Mem, a, dst reg.Register) { v.with(v.VADDPS, v.VADDPS_BCST, c, a, dst) }
func (v *vec) andC(c Mem, a, dst reg.Register) { v.with(v.VANDPS, v.VANDPS_BCST, c, a, dst) }
func (v *vec) xorC(c Mem, a, dst reg.Register) { v.with(v.VXORPS, v.VXORPS_BCST, c, a, dst) }

// horner computes p = p·x + c.
func (v *vec) horner(c Mem, x, p reg.Register) {
	v.with(v.VFMADD213PS, v.VFMADD213PS_BCST, c, x, p)
}

// set fills dst with a constant.
func (v *vec) set(c Mem, dst reg.Register) {
	if v.wide {
		v.VBROADCASTSS(c, dst)
	} else {
		v.VMOVUPS(c, dst)
	}
}

func (v *vec) zero(r reg.Register) { v.VXORPS(r, r, r) }

// loop runs body for every vector of CX values. The last vector is masked. step
// advances the pointers by a vector.
func (v *vec) loop(body func(), pointers ...reg.Register) {
	full, rest, done := v.label("full"), v.label("rest"), v.label("done")
	v.SUBQ(imm(v.lanes), reg.RCX)
	v.JLT(LabelRef(rest))
	v.Label(full)
	body()
	for _, p := range pointers {
		v.ADDQ(imm(v.bytes()), p)
	}
	v.SUBQ(imm(v.lanes), reg.RCX)
	v.JGE(LabelRef(full))
	v.Label(rest)
	v.ADDQ(imm(v.lanes), reg.RCX)
	v.JZ(LabelRef(done))
	v.mask()
	v.tail = true
	body()
	v.tail = false
	v.Label(done)
}

// reduce runs body for vectors of CX values. acc is the partial sum for the
// vector's values: value i belongs to lane i%32.
func (v *vec) reduce(acc []reg.Register, body func(acc reg.Register, disp int), pointers ...reg.Register) {
	full, rest, done := v.label("full"), v.label("rest"), v.label("done")
	for _, r := range acc {
		v.zero(r)
	}
	v.SUBQ(imm(32), reg.RCX)
	v.JLT(LabelRef(rest))
	v.Label(full)
	for i, r := range acc {
		body(r, i*v.bytes())
	}
	for _, p := range pointers {
		v.ADDQ(imm(128), p)
	}
	v.SUBQ(imm(32), reg.RCX)
	v.JGE(LabelRef(full))
	v.Label(rest)
	v.ADDQ(imm(32), reg.RCX)
	v.tail = true
	for i, r := range acc {
		if i > 0 {
			v.SUBQ(imm(v.lanes), reg.RCX)
		} else {
			v.TESTQ(reg.RCX, reg.RCX)
		}
		v.JLE(LabelRef(done))
		v.mask()
		body(r, i*v.bytes())
	}
	v.tail = false
	v.Label(done)
	v.fold(acc)
}

// accs returns the registers of the 32 partial sums.
func (v *vec) accs() []reg.Register { return v.bank[8 : 8+32/v.lanes] }

// fold adds the partial sums, upper halves to lower halves, and returns the total. With AVX-512 the
// first partial sums are in Z8.
func (v *vec) fold(acc []reg.Register) {
	n := len(acc) / 2
	for i := range n {
		v.VADDPS(acc[i+n], acc[i], acc[i])
	}
	if v.wide {
		v.VEXTRACTF32X8(imm(1), acc[0], reg.Y9)
		v.VADDPS(reg.Y9, reg.Y8, reg.Y8)
	} else {
		v.VADDPS(acc[1], acc[0], reg.Y8)
	}
	v.VEXTRACTF128(imm(1), reg.Y8, reg.X9)
	v.VADDPS(reg.X9, reg.X8, reg.X8)
	v.VMOVHLPS(reg.X8, reg.X8, reg.X9)
	v.VADDPS(reg.X9, reg.X8, reg.X8)
	v.VMOVSHDUP(reg.X8, reg.X9)
	v.VADDSS(reg.X9, reg.X8, reg.X8)
	v.Store(reg.X8, v.ReturnIndex(0))
}
