package attn

import (
	"godwit/engine/cpu/attn/asm"
	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
)

func assembly() bool { return kernel.Active() != kernel.Generic }

// dotProd reports whether the processor has byte dot products.
func dotProd() bool { return kernel.Active() == kernel.DotProd }

type (
	mulAddFunc = func(acc *float32, ld int, x *byte, pitch int, coef *float32, steps uint64)
	tokensFunc = func(dst *float32, low, high, table *byte, q *int8, qscale *float32, scales *byte, blocks, chunks, even, odd int)
	valuesFunc = func(acc *float32, ld int, low, high, table, w *byte, scale *float32, groups uint64, vecs int)
)

// Kernels by number of rows minus one. mulAdd kernels exist for 32 and 8 lanes,
// code kernels for a tile and for planes of 2 to 4 bits.
var (
	mulAddF16        = [][2]mulAddFunc{{asm.MulAddF161x32NEON, asm.MulAddF161x8NEON}, {asm.MulAddF162x32NEON, asm.MulAddF162x8NEON}, {asm.MulAddF163x32NEON, asm.MulAddF163x8NEON}}
	mulAddBF16       = [][2]mulAddFunc{{asm.MulAddBF161x32NEON, asm.MulAddBF161x8NEON}, {asm.MulAddBF162x32NEON, asm.MulAddBF162x8NEON}, {asm.MulAddBF163x32NEON, asm.MulAddBF163x8NEON}}
	mulAddF32        = [][2]mulAddFunc{{asm.MulAddF321x32NEON, asm.MulAddF321x8NEON}, {asm.MulAddF322x32NEON, asm.MulAddF322x8NEON}, {asm.MulAddF323x32NEON, asm.MulAddF323x8NEON}}
	mulAddBF16Finite = [][2]mulAddFunc{{asm.MulAddBF16Finite1x32NEON, asm.MulAddBF16Finite1x8NEON}, {asm.MulAddBF16Finite2x32NEON, asm.MulAddBF16Finite2x8NEON}, {asm.MulAddBF16Finite3x32NEON, asm.MulAddBF16Finite3x8NEON}}
	mulAddF32Finite  = [][2]mulAddFunc{{asm.MulAddF32Finite1x32NEON, asm.MulAddF32Finite1x8NEON}, {asm.MulAddF32Finite2x32NEON, asm.MulAddF32Finite2x8NEON}, {asm.MulAddF32Finite3x32NEON, asm.MulAddF32Finite3x8NEON}}

	tokensNEON = [4][]tokensFunc{
		{asm.Tokens1NEON, asm.Tokens2NEON},
		{asm.Tokens1Bits2NEON, asm.Tokens2Bits2NEON},
		{asm.Tokens1Bits3NEON, asm.Tokens2Bits3NEON},
		{asm.Tokens1Bits4NEON, asm.Tokens2Bits4NEON},
	}
	tokensDot = [4][]tokensFunc{
		{asm.Tokens1Dot, asm.Tokens2Dot, asm.Tokens3Dot, asm.Tokens4Dot},
		{asm.Tokens1Bits2Dot, asm.Tokens2Bits2Dot, asm.Tokens3Bits2Dot, asm.Tokens4Bits2Dot},
		{asm.Tokens1Bits3Dot, asm.Tokens2Bits3Dot, asm.Tokens3Bits3Dot, asm.Tokens4Bits3Dot},
		{asm.Tokens1Bits4Dot, asm.Tokens2Bits4Dot, asm.Tokens3Bits4Dot, asm.Tokens4Bits4Dot},
	}
	valuesNEON = [4][]valuesFunc{
		{asm.Values1NEON, asm.Values2NEON},
		{asm.Values1Bits2NEON, asm.Values2Bits2NEON},
		{asm.Values1Bits3NEON, asm.Values2Bits3NEON},
		{asm.Values1Bits4NEON, asm.Values2Bits4NEON},
	}
	valuesDot = [4][]valuesFunc{
		{asm.Values1Dot, asm.Values2Dot, asm.Values3Dot, asm.Values4Dot},
		{asm.Values1Bits2Dot, asm.Values2Bits2Dot, asm.Values3Bits2Dot, asm.Values4Bits2Dot},
		{asm.Values1Bits3Dot, asm.Values2Bits3Dot, asm.Values3Bits3Dot, asm.Values4Bits3Dot},
		{asm.Values1Bits4Dot, asm.Values2Bits4Dot, asm.Values3Bits4Dot, asm.Values4Bits4Dot},
	}
)

// mulAdd needs whole vectors of eight lanes.
func mulAdd(a *mulAddArgs) {
	switch {
	case a.steps == 0:
		return
	case !assembly() || a.lanes%8 != 0:
		mulAddGeneric(a)
		return
	}
	f, size := mulAddF32, 4
	switch {
	case a.stored == dtype.F16:
		f, size = mulAddF16, 2
	case a.stored == dtype.BF16 && a.finite:
		f, size = mulAddBF16Finite, 2
	case a.stored == dtype.BF16:
		f, size = mulAddBF16, 2
	case a.finite:
		f = mulAddF32Finite
	}
	last := lastStep(a.steps)
	_ = a.x[last*a.pitch+a.lanes*size-1]
	_ = a.acc[(a.n-1)*a.ld+a.lanes-1]
	_ = a.coef[(a.n-1)*64+last]
	for i := 0; i < a.n; i += len(f) {
		rows := min(len(f), a.n-i)
		for j := 0; j < a.lanes; {
			narrow, n := 0, 32
			if a.lanes-j < n {
				narrow, n = 1, 8
			}
			f[rows-1][narrow](&a.acc[i*a.ld+j], 4*a.ld, &a.x[j*size], a.pitch, &a.coef[i*64], a.steps)
			j += n
		}
	}
}

func transposeFloats(dst, x []byte, width int, stored dtype.Type) {
	if !assembly() || width%4 != 0 {
		transposeFloatsGeneric(dst, x, width, stored)
		return
	}
	_ = dst[width*Cells*4-1]
	switch stored {
	case dtype.F16:
		asm.TransposeF16NEON(&dst[0], &x[:width*Cells*2][0], width)
	case dtype.BF16:
		asm.TransposeBF16NEON(&dst[0], &x[:width*Cells*2][0], width)
	default:
		asm.TransposeF32NEON(&dst[0], &x[:width*Cells*4][0], width)
	}
}

func expand(dst, low, high []byte, lowBits int, table *[64]byte, steps, _ int) {
	_, _ = dst[steps*64-1], low[steps*8*lowBits-1]
	switch {
	case !assembly() || steps%8 != 0:
		expandGeneric(dst, low, high, lowBits, table, steps)
	case high != nil && lowBits == 2:
		asm.Expand3NEON(&dst[0], &low[0], &high[:steps*8][0], &table[0], steps)
	case high != nil && lowBits == 4:
		asm.Expand5NEON(&dst[0], &low[0], &high[:steps*8][0], &table[0], steps)
	case lowBits == 1:
		asm.Expand1NEON(&dst[0], &low[0], nil, &table[0], steps)
	case lowBits == 2:
		asm.Expand2NEON(&dst[0], &low[0], nil, &table[0], steps)
	default:
		asm.Expand4NEON(&dst[0], &low[0], nil, &table[0], steps)
	}
}

func decode(dst, codes []byte, groups, vecs int, l *levels) {
	if !assembly() {
		decodeGeneric(dst, codes, groups, vecs, l)
		return
	}
	f := asm.DecodeTable2NEON
	switch {
	case l.exact && vecs == 2:
		f = asm.DecodeInt2NEON
	case l.exact:
		f = asm.DecodeInt4NEON
	case vecs == 4:
		f = asm.DecodeTable4NEON
	}
	n := groups * vecs
	f(&dst[:256*n][0], &codes[:64*n][0], groups, &l.float[0], uint32(l.zero)*0x01010101)
}

func transpose(dst, codes []byte, vecs int, flip byte) {
	if !assembly() {
		transposeGeneric(dst, codes, vecs, flip)
		return
	}
	asm.TransposeNEON(&dst[:1024*vecs][0], &codes[:1024*vecs][0], vecs, uint32(flip)*0x01010101)
}

// reads reports whether kernels can read planes for n rows.
func (p *planes) reads(n int) bool {
	return p.bits <= 4 && (dotProd() && n <= len(tokensDot[0]) || kernel.Active() == kernel.NEON && n <= len(tokensNEON[0]))
}

// at returns the index of the kernels for these planes in the tables above. Index
// 0 is for a tile without planes.
func (p *planes) at() int { return max(0, p.bits-1) }

func (p *codes) tokensRun([]float32, *prepared, int, []Visit) bool { return false }

func (p *codes) valuesRun([]float32, int, []float32, int, []Visit, *Scratch) (done, blocks int) {
	return 0, 0
}

func dotTokens(a *dotTokensArgs) {
	if !assembly() {
		dotTokensGeneric(a)
		return
	}
	kernels := &tokensNEON
	if dotProd() {
		kernels = &tokensDot
	}
	q, f := a.q, kernels[a.planes.at()]
	_, _ = a.dst[a.n/q.per*Cells-1], a.scales[2*q.blocks*Cells-1]
	low, high, table := a.tile, []byte(nil), &signLevels
	even, odd := 4*Cells, 4*Cells
	if p := &a.planes; p.bits > 0 {
		low, high, table = p.low, p.high, p.table
	}
	if q.per == 2 {
		even = 0
	}
	_ = low[q.values*Cells*a.planes.lowBits()/8-1]
	at := a.group * q.blocks * panel
	chunks := q.values / q.blocks / 32
	for i := 0; i < a.n; i += len(f) {
		f[min(len(f), a.n-i)-1](&a.dst[i/q.per*Cells], &low[0], first(high), &table[0], &q.q[a.group*q.values*panel+32*i],
			&q.scale[at+i], &a.scales[0], q.blocks, chunks, even, odd)
	}
}

// lowBits returns the number of bits per code in the low plane, or in a tile.
func (p *planes) lowBits() int {
	if p.bits == 0 {
		return 8
	}
	return p.bits &^ 1
}

func first(b []byte) *byte {
	if len(b) == 0 {
		return nil
	}
	return &b[0]
}

func dotValues(a *dotValuesArgs) {
	switch {
	case a.groups == 0:
		return
	case !assembly():
		dotValuesGeneric(a)
		return
	}
	kernels := &valuesNEON
	if dotProd() {
		kernels = &valuesDot
	}
	f := kernels[a.planes.at()]
	_ = a.acc[(a.n-1)*a.ld+16*a.vecs-1]
	low, high, table := a.tile, []byte(nil), &signLevels
	if p := &a.planes; p.bits > 0 {
		low, high, table = p.low[8*p.lowBits()*a.first:], p.high, p.table
		if len(high) > 0 {
			high = high[8*a.first:]
		}
	}
	_ = low[128*a.vecs*a.planes.lowBits()-1]
	for i := 0; i < a.n; i += len(f) {
		f[min(len(f), a.n-i)-1](&a.acc[i*a.ld], 4*a.ld, &low[0], first(high), &table[0], &a.w[i][0], &a.scale[i], a.groups, a.vecs)
	}
}

func roundWeights(dst *[panel][Cells]uint8, w []float32, n int, scales []byte, sign float32, amax *[panel]float32) bool {
	if !assembly() {
		return roundWeightsGeneric(dst, w, n, scales, sign, amax)
	}
	var flip uint32
	if sign < 0 {
		flip = 1 << 31
	}
	_, _, _ = dst[n-1], w[n*Cells-1], scales[2*Cells-1]
	return asm.RoundWeightsNEON(&dst[0][0], &w[0], &scales[0], flip, n, &amax[0]) != 0
}

func addHalf(dst []float32, x []byte, f float32) {
	if !assembly() {
		addHalfGeneric(dst, x, f)
		return
	}
	asm.AddHalfNEON(&dst[:Cells][0], &x[:2*Cells][0], f)
}

func addScaled(dst, raw []float32, x []byte) {
	if !assembly() {
		addScaledGeneric(dst, raw, x)
		return
	}
	asm.AddScaledNEON(&dst[:len(raw)][0], &raw[0], &x[:2*Cells][0], len(raw)/Cells)
}

func mulHalf(dst, w []float32, x []byte) {
	if !assembly() {
		mulHalfGeneric(dst, w, x)
		return
	}
	asm.MulHalfNEON(&dst[0], &w[:len(dst)][0], &x[:2*Cells][0], len(dst)/Cells)
}

func dotHalf(w []float32, x []byte) float32 {
	if !assembly() {
		return dotHalfGeneric(w, x)
	}
	return asm.DotHalfNEON(&w[:Cells][0], &x[:2*Cells][0])
}

func logits(s []float32, stride int, factor float32, visible []uint64, top float32) float32 {
	if !assembly() {
		return logitsGeneric(s, stride, factor, visible, top)
	}
	return asm.LogitsNEON(&s[0], 4*stride, len(visible), factor, &visible[0], top)
}

func weights(s []float32, stride int, visible []uint64, top, tau float32, kept []uint64) float32 {
	if !assembly() {
		return weightsGeneric(s, stride, visible, top, tau, kept)
	}
	return asm.WeightsNEON(&s[0], 4*stride, len(visible), &visible[0], top, tau, &kept[0])
}
