package attn

func trellisTokens(dst, strings []byte, y *trellis, elems, ahead int) {
	if !avx512() {
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
	if !avx512() {
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
