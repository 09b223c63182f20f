//go:build !amd64

package attn

func trellisTokens(dst, strings []byte, y *trellis, elems, _ int) {
	trellisTokensGeneric(dst, strings, y, elems)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, _ int) {
	trellisValuesGeneric(dst, strings, y, elems, chunk, used)
}

func searchTrellis(w []uint8, z []int16, y *trellis, _ *paths) { y.run.Encode(w, z) }
