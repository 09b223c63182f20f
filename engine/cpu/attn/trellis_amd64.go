package attn

import (
	"godwit/engine/cpu/attn/asm"
	"godwit/engine/kv"
)

// AVX2 kernels that read trellis codes, by bits, starting with 2.
var (
	trellisTokens2 = [3]func(dst, strings, table *byte, bytes, chunks int){asm.TrellisTokens2AVX2, asm.TrellisTokens3AVX2, asm.TrellisTokens4AVX2}
	trellisValues2 = [3]func(dst, strings, table *byte, bytes, chunks, group int, used uint64){asm.TrellisValues2AVX2, asm.TrellisValues3AVX2, asm.TrellisValues4AVX2}
)

func trellisTokens(dst, strings []byte, y *trellis, elems, ahead int) {
	switch {
	case avx2():
		_, _ = dst[elems*Cells-1], strings[Cells*y.bytes+overrun-1]
		trellisTokens2[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/32)
		return
	case !avx512():
		trellisTokensGeneric(dst, strings, y, elems)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes+overrun-1]
	asm.TrellisTokensAVX512(&dst[0], &strings[0], &y.table[0], y.bits, elems/8, ahead)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, ahead int) {
	switch {
	case avx2():
		_, _ = dst[elems*Cells-1], strings[Cells*y.bytes+overrun-1]
		trellisValues2[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/32, 4*chunk, used)
		return
	case !avx512():
		trellisValuesGeneric(dst, strings, y, elems, chunk, used)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes+overrun-1]
	asm.TrellisValuesAVX512(&dst[0], &strings[0], &y.table[0], y.bits, elems/32, 4*chunk, used, ahead)
}

// viterbiFunc adds groups of four values, in descending order from z, to the
// paths of several rows, as kv.Trellis does. squares are the squares of value
// 0.
type viterbiFunc = func(cost, most, kept *uint16, from *byte, z *int16, squares *uint16, groups int)

var (
	viterbi512    = [3]viterbiFunc{asm.Viterbi2x1AVX512, asm.Viterbi3x1AVX512, asm.Viterbi4x1AVX512}
	viterbiAll512 = [3]viterbiFunc{asm.Viterbi2x4AVX512, asm.Viterbi3x4AVX512, asm.Viterbi4x4AVX512}
	viterbiBlind  = [3]viterbiFunc{asm.ViterbiBlind2x4AVX512, asm.ViterbiBlind3x4AVX512, asm.ViterbiBlind4x4AVX512}
	viterbi2      = [3]viterbiFunc{asm.Viterbi2AVX2, asm.Viterbi3AVX2, asm.Viterbi4AVX2}
	walkBacks     = [3]func(w, from *byte, state *uint, n int){asm.WalkBack2x4, asm.WalkBack3x4, asm.WalkBack4x4}
)

// vector reports whether the encoder has vector code.
func (y *trellis) vector() bool { return avx512() || avx2() }

// advance adds n values of some rows to their paths, in descending order from
// z[at]. The first is step k.
func (y *trellis) advance(s *paths, first, rows, k, at, n int) {
	states, squares := 256>>y.bits, y.run.Squares()
	step := viterbi2[y.bits-2]
	if avx512() {
		step = viterbi512[y.bits-2]
		if rows == abreast {
			step, rows = viterbiAll512[y.bits-2], 1
			if k == 0 { // no path is traced back this far
				step = viterbiBlind[y.bits-2]
			}
		}
	}
	for i := first; i < first+rows; i++ {
		_, _, _ = s.from[i][(k+n)*states-1], s.kept[i][(k+n)/4*states-1], s.z[i][at+1-n]
		step(&s.cost[i][0], &s.most[i][0], &s.kept[i][k/4*states], &s.from[i][k*states], &s.z[i][at], &squares[kv.TrellisReach][0], n/4)
	}
}

// walkBack traces the paths of all rows back over n values, starting from their
// states after step k, and writes their windows.
func (y *trellis) walkBack(s *paths, k, n int) {
	states := 256 >> y.bits
	_, _ = s.from[0][k*states-1], s.w[0][n-1]
	walkBacks[y.bits-2](&s.w[0][0], &s.from[0][(k-1)*states], &s.at[0], n)
}

func trellisTargets(z []int16, x []float32, unit float32) float64 {
	if !avx512() || !whole(len(x)) {
		return kv.TrellisTargets(z, x, unit)
	}
	_ = z[len(x)-1]
	energy := asm.EnergyAVX512(&x[0], len(x))
	if gain := kv.TrellisGain(energy, len(x), unit); gain > 0 {
		asm.TargetsAVX512(&z[0], &x[0], len(x), kv.TrellisReach, gain)
	} else {
		clear(z)
	}
	return energy
}

// dot returns the dot product of x and the levels of its windows.
func (y *trellis) dot(x []float32, w *[maxElems]uint8) float64 {
	if !avx512() || !whole(len(x)) {
		return y.dotGeneric(x, w)
	}
	return asm.LevelsAVX512(&x[0], &w[0], &y.level[0], len(x))
}

// rotated reads the values of four cells in the rotated domain. cell is a
// multiple of four, and the results are ld apart.
func (p *codes) rotated(dst []float32, ld int, page []byte, cell int) {
	if !avx512() || p.elems != 32 {
		p.rotatedGeneric(dst, ld, page, cell)
		return
	}
	_ = dst[3*ld+p.values-1]
	_ = page[:p.scale+2*Cells*p.Blocks]
	at, read := p.low.at+cell/16*64+cell%16*4, asm.RowsOfKAVX512
	if p.side == kv.V {
		at, read = p.low.at+cell/4*128, asm.RowsOfVAVX512
	}
	read(&dst[0], 4*ld, &page[at], &page[p.scale+2*cell], p.Blocks)
}
