package main

import . "godwit/engine/cpu/neon"

// peakChains is the number of independent sums of a round of peak.
const peakChains = 16

// roofline writes the kernels that measure the machine.
func roofline(f *File) {
	f.Func("readNEON", "(p *byte, n int) uint64", "reads n bytes, a multiple of 256, and returns a mix of them.", 0)
	f.Arg("p", R0)
	f.Arg("n", R9)
	for i := range V(4) {
		f.Zero(i)
	}
	f.Loop(R9, 256, func() {
		for i := 0; i < 256; i += 64 {
			f.LoadPair(4, 5, R0, i)
			f.LoadPair(6, 7, R0, i+32)
			for j := range V(4) {
				f.V("eor.16b", j, j, 4+j)
			}
		}
		f.Op("ADD $256, R0, R0")
	})
	for i := range V(3) {
		f.V("eor.16b", 0, 0, 1+i)
	}
	f.Ext(1, 0, 0, 8)
	f.V("eor.16b", 0, 0, 1)
	f.Op("FMOVD F0, R0")
	f.Return(R0)
	f.Ret()

	for _, dot := range []bool{false, true} {
		name, doc := "peakNEON", "does n rounds of 16 independent instructions of eight byte products."
		if dot {
			name, doc = "peakDot", "does n rounds of 16 independent instructions of 16 byte products."
		}
		f.Func(name, "(n int)", doc, 0)
		f.Arg("n", R9)
		f.Loop(R9, 1, func() {
			for i := range V(peakChains) {
				if dot {
					f.ByElement("sdot", i, 16, 17, 0)
				} else {
					f.V("smlal", i, 16, 17)
				}
			}
		})
		f.Ret()
	}

	f.Func("prefetchNEON", "(p *byte, n int)", "prefetches n lines of 64 bytes.", 0)
	f.Arg("p", R0)
	f.Arg("n", R9)
	f.Loop(R9, 1, func() {
		f.Op("PRFM (R0), PLDL2KEEP")
		f.Op("ADD $64, R0, R0")
	})
	f.Ret()
}
