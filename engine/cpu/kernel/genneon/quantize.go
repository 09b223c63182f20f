package main

import . "godwit/engine/cpu/neon"

// quantize fills blocks of activations. The sixteen bits of a code go to two
// planes. The upper plane is rounded. R3 holds the largest magnitude as bits.
func quantize(v *vec) {
	v.args("dst", "x")
	abs := v.Bits("absBits", 0x7fffffff)
	v.Op("MOVW $0x46fe0000, R4") // actTop
	v.Op("FMOVS R4, F16")
	odd, next, again := v.NewLabel("odd"), v.NewLabel("next"), v.NewLabel("block")
	v.Label(again)
	for i := range V(4) {
		v.LoadPair(2*i, 2*i+1, R1, 32*int(i))
	}
	v.V("and.16b", 8, 0, abs)
	for i := range V(7) {
		v.V("and.16b", 9, 1+i, abs)
		v.V("umax.4s", 8, 8, 9)
	}
	v.N("umaxv.4s", 8, 8)
	v.Op("FMOVS F8, R3")
	v.Op("MOVW $0x07800000, R4")
	v.Op("CMPW R4, R3")
	v.Op("BLO %s", odd)
	v.Op("MOVW $0x7f800000, R4")
	v.Op("CMPW R4, R3")
	v.Op("BHS %s", odd)
	v.actBlock()
	v.Label(next)
	v.Op("ADD $%d, R0, R0", actSize)
	v.Op("ADD $128, R1, R1")
	v.Op("SUBS $32, R9, R9")
	v.Op("BNE %s", again)
	v.Op("RET")
	// Too small for a scale, or not finite: no codes.
	v.Label(odd)
	v.Zero(0)
	for _, off := range []int{0, 16, 32, 48, actD, actSize - 16} {
		v.Store(0, R0, off)
	}
	v.Op("MOVW $0x7f800000, R4")
	v.Op("CMPW R4, R3")
	v.Op("BLO %s", next)
	v.Op("MOVW $0x7fc00000, R4")
	v.Op("MOVW R4, %d(R0)", actD)
	v.Op("MOVW R4, %d(R0)", actD+4)
	v.Op("B %s", next)
}

// actBlock makes a block from V0 to V7. Their largest magnitude is in V8.
func (v *vec) actBlock() {
	v.Op("FDIVS F8, F16, F9")  // codes per unit
	v.Op("FDIVS F16, F8, F10") // the scale
	v.Op("FMOVS F10, %d(R0)", actD)
	for i := range V(8) {
		v.ByElement("fmul", i, i, 9, 0)
		v.N("fcvtns.4s", i, i)
	}
	// Sums of the halves in the first lanes of V11 and V12.
	for h := range V(2) {
		sum := 11 + h
		v.V("add.4s", sum, 4*h, 4*h+1)
		v.V("add.4s", 13, 4*h+2, 4*h+3)
		v.V("add.4s", sum, sum, 13)
		v.N("addv.4s", sum, sum)
	}
	for i := range V(4) {
		v.N("xtn.4h", 2*i, 2*i)
		v.N("xtn2.8h", 2*i, 2*i+1)
	}
	for h := range V(2) {
		v.N("rshrn.8b", 13, 4*h)
		v.N("rshrn2", 13, 4*h+2)
		v.N("xtn.8b", 14, 4*h)
		v.N("xtn2.16b", 14, 4*h+2)
		v.Store(13, R0, 16*int(h))
		v.Store(14, R0, 32+16*int(h))
	}
	v.Op("FMOVS F11, R3")
	v.Op("FMOVS F12, R4")
	v.Op("ADDW R3, R4, R5")
	v.Op("SCVTFWS R5, F13")
	v.Op("FMULS F10, F13, F13")
	v.Op("FMOVS F13, %d(R0)", actD+4)
	for i, r := range []R{5, 3, 4} {
		v.Op("NEGW %v, %v", r, r)
		if i > 0 {
			v.Op("LSLW $5, %v, %v", r, r)
		}
		v.Op("MOVW %v, %d(R0)", r, actNeg+4*i)
	}
}
