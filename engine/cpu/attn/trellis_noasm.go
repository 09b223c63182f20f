//go:build !amd64 && !arm64

package attn

func trellisTokens(dst, strings []byte, y *trellis, elems, _ int) {
	trellisTokensGeneric(dst, strings, y, elems)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, _ int) {
	trellisValuesGeneric(dst, strings, y, elems, chunk, used)
}

func viterbi(*trellis) (viterbiFunc, *[256]int16) { return nil, nil }
