//go:build !amd64 && !arm64

package attn

import "godwit/engine/kv"

func trellisTokens(dst, strings []byte, y *trellis, elems, _ int) {
	trellisTokensGeneric(dst, strings, y, elems)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, _ int) {
	trellisValuesGeneric(dst, strings, y, elems, chunk, used)
}

func (y *trellis) vector() bool { return false }

func (y *trellis) advance(*paths, int, int, int, int, int) {}

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
