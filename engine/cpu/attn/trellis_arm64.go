package attn

import (
	"godwit/engine/cpu/attn/asm"
	"godwit/engine/kv"
)

// NEON kernels that read trellis codes, by bits, starting with 2.
var (
	trellisTokensNEON = [3]func(dst, strings, table *byte, bytes, chunks int){asm.TrellisTokens2NEON, asm.TrellisTokens3NEON, asm.TrellisTokens4NEON}
	trellisValuesNEON = [3]func(dst, strings, table *byte, bytes, blocks, chunks int, used uint64){asm.TrellisValues2NEON, asm.TrellisValues3NEON, asm.TrellisValues4NEON}
	viterbiNEON       = [3]func(cost, most, kept *uint16, from *byte, z, table *int16, groups int){asm.Viterbi2NEON, asm.Viterbi3NEON, asm.Viterbi4NEON}
)

func trellisTokens(dst, strings []byte, y *trellis, elems, _ int) {
	if !assembly() {
		trellisTokensGeneric(dst, strings, y, elems)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes+overrun-1]
	trellisTokensNEON[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/16)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, _ int) {
	if !assembly() {
		trellisValuesGeneric(dst, strings, y, elems, chunk, used)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes+overrun-1]
	trellisValuesNEON[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/chunk, chunk/16, used)
}

// vector reports whether the encoder has vector code.
func (y *trellis) vector() bool { return assembly() }

// advance adds n values of some rows to their paths, in descending order from
// z[at]. The first is step k.
func (y *trellis) advance(s *paths, first, rows, k, at, n int) {
	states := 256 >> y.bits
	for i := first; i < first+rows; i++ {
		_, _, _ = s.from[i][(k+n)*states-1], s.kept[i][(k+n)/4*states-1], s.z[i][at+1-n]
		viterbiNEON[y.bits-2](&s.cost[i][0], &s.most[i][0], &s.kept[i][k/4*states], &s.from[i][k*states], &s.z[i][at], &y.run.Table[0], n/4)
	}
}

func (y *trellis) walkBack(s *paths, k, n int) {
	for i := range abreast {
		s.at[i] = y.backRow(s.w[i][:n], s.from[i][:], s.at[i], k)
	}
}

func trellisTargets(z []int16, x []float32, unit float32) float64 {
	return kv.TrellisTargets(z, x, unit)
}

func (y *trellis) dot(x []float32, w *[maxElems]uint8) float64 { return y.dotGeneric(x, w) }

func (p *codes) rotated(dst []float32, ld int, page []byte, cell int) {
	p.rotatedGeneric(dst, ld, page, cell)
}
