package attn

// The readers of NEON, by bits from 2 up; they read overrun bytes behind the
// strings.
var (
	trellisTokensNEON = [3]func(dst, strings, table *byte, bytes, chunks int){trellisTokens2NEON, trellisTokens3NEON, trellisTokens4NEON}
	trellisValuesNEON = [3]func(dst, strings, table *byte, bytes, blocks, chunks int, used uint64){trellisValues2NEON, trellisValues3NEON, trellisValues4NEON}
	viterbiNEON       = [3]viterbiFunc{viterbi2NEON, viterbi3NEON, viterbi4NEON}
)

func trellisTokens(dst, strings []byte, y *trellis, elems, _ int) {
	if !assembly() || len(strings) < Cells*y.bytes+overrun {
		trellisTokensGeneric(dst, strings, y, elems)
		return
	}
	_ = dst[elems*Cells-1]
	trellisTokensNEON[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/16)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, _ int) {
	if !assembly() || len(strings) < Cells*y.bytes+overrun {
		trellisValuesGeneric(dst, strings, y, elems, chunk, used)
		return
	}
	_ = dst[elems*Cells-1]
	trellisValuesNEON[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/chunk, chunk/16, used)
}

// viterbi is the vector code of the encoder and the table that it takes.
func viterbi(y *trellis) (viterbiFunc, *[256]int16) {
	if !assembly() {
		return nil, nil
	}
	return viterbiNEON[y.bits-2], &y.run.Table
}
