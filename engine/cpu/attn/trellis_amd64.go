package attn

// The readers of AVX2, by bits from 2 up; they read overrun bytes behind the
// strings.
var (
	trellisTokens2 = [3]func(dst, strings, table *byte, bytes, chunks int){trellisTokens2AVX2, trellisTokens3AVX2, trellisTokens4AVX2}
	trellisValues2 = [3]func(dst, strings, table *byte, bytes, chunks, group int, used uint64){trellisValues2AVX2, trellisValues3AVX2, trellisValues4AVX2}
)

func trellisTokens(dst, strings []byte, y *trellis, elems, ahead int) {
	switch {
	case avx2() && len(strings) >= Cells*y.bytes+overrun:
		_ = dst[elems*Cells-1]
		trellisTokens2[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/32)
		return
	case !avx512():
		trellisTokensGeneric(dst, strings, y, elems)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes-1]
	if elems == 32 {
		trellisTokens32AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, y.bytes, 1, ahead)
		return
	}
	trellisTokens64AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, 8*y.bits, elems/64, ahead)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, ahead int) {
	switch {
	case avx2() && len(strings) >= Cells*y.bytes+overrun:
		_ = dst[elems*Cells-1]
		trellisValues2[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/32, 4*chunk, used)
		return
	case !avx512():
		trellisValuesGeneric(dst, strings, y, elems, chunk, used)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes-1]
	if elems == 32 {
		trellisValues32AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, y.bytes, 1, used, ahead)
		return
	}
	trellisValues64AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, 8*y.bits, elems/64, used, ahead)
}

var (
	viterbi512 = [3]viterbiFunc{viterbi2AVX512, viterbi3AVX512, viterbi4AVX512}
	viterbi2   = [3]viterbiFunc{viterbi2AVX2, viterbi3AVX2, viterbi4AVX2}
)

// viterbi is the vector code of the encoder and the table that it takes.
func viterbi(y *trellis) (viterbiFunc, *[256]int16) {
	switch {
	case avx512():
		return viterbi512[y.bits-2], &y.steps
	case avx2():
		return viterbi2[y.bits-2], &y.run.Table
	}
	return nil, nil
}
