package main

import . "godwit/engine/cpu/neon"

// vec writes element-wise kernels. Their slices are pointers in R0 to R4, in
// the order of the signature. R9 is the number of values, which is a multiple
// of four, or of 32 for sums. V16 to V31 hold constants.
type vec struct{ Constants }

// step advances pointers.
func (v *vec) step(bytes int, pointers []R) {
	for _, p := range pointers {
		v.Op("ADD $%d, %v, %v", bytes, p, p)
	}
}

// each runs body for every vector at the pointers.
func (v *vec) each(body func(disp int), pointers ...R) {
	v.Loop(R9, 4, func() {
		body(0)
		v.step(16, pointers)
	})
}

// eachFast is each for light bodies, with four vectors at a time.
func (v *vec) eachFast(body func(disp int), pointers ...R) {
	single, done := v.NewLabel("single"), v.NewLabel("done")
	v.Op("SUBS $16, R9, R9")
	v.Op("BLT %s", single)
	again := v.NewLabel("four")
	v.Label(again)
	for i := range 4 {
		body(16 * i)
	}
	v.step(64, pointers)
	v.Op("SUBS $16, R9, R9")
	v.Op("BGE %s", again)
	v.Label(single)
	v.Op("ADDS $16, R9, R9")
	v.Op("BEQ %s", done)
	v.each(body, pointers...)
	v.Label(done)
}

// sums is the first register of the 32 partial sums of a reduction.
const sums V = 8

// reduce adds to the 32 partial sums at R0; body adds one vector.
func (v *vec) reduce(body func(acc V, disp int), pointers ...R) {
	for i := range V(4) {
		v.LoadPair(sums+2*i, sums+2*i+1, R0, 32*int(i))
	}
	v.Loop(R9, 32, func() {
		for i := range 8 {
			body(sums+V(i), 16*i)
		}
		v.step(128, pointers)
	})
	for i := range V(4) {
		v.StorePair(sums+2*i, sums+2*i+1, R0, 32*int(i))
	}
}
