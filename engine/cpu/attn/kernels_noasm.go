//go:build !amd64 && !arm64

package attn

import "godwit/engine/dtype"

func mulAdd(a *mulAddArgs) { mulAddGeneric(a) }

func expand(dst, low, high []byte, lowBits int, table *[64]byte, steps, _ int) {
	expandGeneric(dst, low, high, lowBits, table, steps)
}

func decode(dst, codes []byte, groups, vecs int, l *levels) {
	decodeGeneric(dst, codes, groups, vecs, l)
}

func transpose(dst, codes []byte, vecs int, flip byte) { transposeGeneric(dst, codes, vecs, flip) }

func dotTokens(a *dotTokensArgs) { dotTokensGeneric(a) }

func (p *planes) reads(int) bool { return false }

func (p *codes) tokensRun([]float32, *prepared, int, []Visit) bool { return false }

func (p *codes) valuesRun([]float32, int, []float32, int, []Visit, *Scratch) (done, blocks int) {
	return 0, 0
}

func dotValues(a *dotValuesArgs) { dotValuesGeneric(a) }

func roundWeights(dst *[panel][Cells]uint8, w []float32, n int, scales []byte, sign float32, amax *[panel]float32) bool {
	return roundWeightsGeneric(dst, w, n, scales, sign, amax)
}

func addHalf(dst []float32, x []byte, f float32) { addHalfGeneric(dst, x, f) }

func addScaled(dst, raw []float32, x []byte) { addScaledGeneric(dst, raw, x) }

func mulHalf(dst, w []float32, x []byte) { mulHalfGeneric(dst, w, x) }

func dotHalf(w []float32, x []byte) float32 { return dotHalfGeneric(w, x) }

func logits(s []float32, stride int, factor float32, visible []uint64, top float32) float32 {
	return logitsGeneric(s, stride, factor, visible, top)
}

func weights(s []float32, stride int, visible []uint64, top, tau float32, kept []uint64) float32 {
	return weightsGeneric(s, stride, visible, top, tau, kept)
}

func hadamard(x, pre, post []float32, c float32) { hadamardGeneric(x, pre, post, c) }

func maxAbs(x []float32) float32 { return maxAbsGeneric(x) }

func roundInt8(dst []int8, x []float32, inv float32) int32 { return roundInt8Generic(dst, x, inv) }

func roundAway(dst []uint8, x []float32, inv float32) { roundAwayGeneric(dst, x, inv) }

func toHalf(dst []byte, x []float32) { toHalfGeneric(dst, x) }

func codesOf(dst []uint8, x, boundaries []float32) { codesOfGeneric(dst, x, boundaries) }

func scatterTokens(plane, c []uint8, step, width, first int) {
	scatterTokensGeneric(plane, c, step, width, first)
}

func scatterValues(plane, c []uint8, step, width, at, first int) {
	scatterValuesGeneric(plane, c, step, width, at, first)
}

func spreadHalves(dst, src []byte) { spreadHalvesGeneric(dst, src) }

func remainder(dst, x []float32, inv, step float32) { remainderGeneric(dst, x, inv, step) }

func transposeFloats(dst, x []byte, width int, stored dtype.Type) {
	transposeFloatsGeneric(dst, x, width, stored)
}

// Quotients writes x/y to dst, element by element. All three have the same
// length, and dst may be x.
func Quotients(dst, x, y []float32) { quotientsGeneric(dst, x, y) }

func dots(dst, q, x []float32, values, n, rows int) { dotsGeneric(dst, q, x, values, n, rows) }
