package attn

import (
	"golang.org/x/sys/cpu"

	"godwit/engine/cpu/attn/asm"
	"godwit/engine/cpu/kernel"
	"godwit/engine/dtype"
)

// bitInstructions reports whether the processor has BMI1 and BMI2, which the kernels
// also use.
var bitInstructions = cpu.X86.HasBMI1 && cpu.X86.HasBMI2

func avx512() bool { return kernel.Active() == kernel.AVX512 && bitInstructions }
func avx2() bool   { return kernel.Active() == kernel.AVX2 && bitInstructions }

// Variants by number of rows, starting with one.
type (
	mulAddFunc = func(acc *float32, ld int, x *byte, pitch int, coef *float32, steps, lanes uint64, ahead int)
	tokensFunc = func(dst *float32, tile *byte, q *int8, qscale *float32, init *int32, scales *byte, blocks, chunks int)
	valuesFunc = func(acc *float32, ld int, tile, w *byte, scale *float32, groups uint64, ahead int)
)

var (
	mulAddF16512        = [panel]mulAddFunc{asm.MulAddF16x1AVX512, asm.MulAddF16x2AVX512, asm.MulAddF16x3AVX512, asm.MulAddF16x4AVX512, asm.MulAddF16x5AVX512, asm.MulAddF16x6AVX512}
	mulAddBF16512       = [panel]mulAddFunc{asm.MulAddBF16x1AVX512, asm.MulAddBF16x2AVX512, asm.MulAddBF16x3AVX512, asm.MulAddBF16x4AVX512, asm.MulAddBF16x5AVX512, asm.MulAddBF16x6AVX512}
	mulAddF32512        = [panel]mulAddFunc{asm.MulAddF32x1AVX512, asm.MulAddF32x2AVX512, asm.MulAddF32x3AVX512, asm.MulAddF32x4AVX512, asm.MulAddF32x5AVX512, asm.MulAddF32x6AVX512}
	mulAddBF16Finite512 = [panel]mulAddFunc{asm.MulAddBF16Finitex1AVX512, asm.MulAddBF16Finitex2AVX512, asm.MulAddBF16Finitex3AVX512, asm.MulAddBF16Finitex4AVX512, asm.MulAddBF16Finitex5AVX512, asm.MulAddBF16Finitex6AVX512}
	mulAddF32Finite512  = [panel]mulAddFunc{asm.MulAddF32Finitex1AVX512, asm.MulAddF32Finitex2AVX512, asm.MulAddF32Finitex3AVX512, asm.MulAddF32Finitex4AVX512, asm.MulAddF32Finitex5AVX512, asm.MulAddF32Finitex6AVX512}
	tokens512           = [panel]tokensFunc{asm.Tokens1AVX512, asm.Tokens2AVX512, asm.Tokens3AVX512, asm.Tokens4AVX512, asm.Tokens5AVX512, asm.Tokens6AVX512}
	values4x512         = [panel]valuesFunc{asm.Values1x4AVX512, asm.Values2x4AVX512, asm.Values3x4AVX512, asm.Values4x4AVX512, asm.Values5x4AVX512, asm.Values6x4AVX512}
	values2x512         = [panel]valuesFunc{asm.Values1x2AVX512, asm.Values2x2AVX512, asm.Values3x2AVX512, asm.Values4x2AVX512, asm.Values5x2AVX512, asm.Values6x2AVX512}
)

func transposeFloats(dst, x []byte, width int, stored dtype.Type) {
	if !avx512() {
		transposeFloatsGeneric(dst, x, width, stored)
		return
	}
	_ = dst[width*Cells*4-1]
	switch stored {
	case dtype.F16:
		asm.TransposeF16AVX512(&dst[0], &x[:width*Cells*2][0], width)
	case dtype.BF16:
		asm.TransposeBF16AVX512(&dst[0], &x[:width*Cells*2][0], width)
	default:
		asm.TransposeF32AVX512(&dst[0], &x[:width*Cells*4][0], width)
	}
}

func mulAdd(a *mulAddArgs) {
	switch {
	case a.steps == 0:
	case avx512():
		mulAddAVX512(a)
	case avx2() && a.lanes%8 == 0:
		mulAddAVX2(a)
	default:
		mulAddGeneric(a)
	}
}

func mulAddAVX512(a *mulAddArgs) {
	f := &mulAddF32512
	size := 4
	switch {
	case a.stored == dtype.F16:
		f, size = &mulAddF16512, 2
	case a.stored == dtype.BF16 && a.finite:
		f, size = &mulAddBF16Finite512, 2
	case a.stored == dtype.BF16:
		f, size = &mulAddBF16512, 2
	case a.finite:
		f = &mulAddF32Finite512
	}
	last := lastStep(a.steps)
	_ = a.x[last*a.pitch+a.lanes*size-1]
	_ = a.acc[(a.n-1)*a.ld+a.lanes-1]
	_ = a.coef[(a.n-1)*64+last]
	f[a.n-1](&a.acc[0], 4*a.ld, &a.x[0], a.pitch, &a.coef[0], a.steps, ones(a.lanes), a.ahead)
}

func expand(dst, low, high []byte, lowBits int, table *[64]byte, steps, ahead int) {
	_, _ = dst[steps*64-1], low[steps*8*lowBits-1]
	switch {
	case avx2():
		expandAVX2(dst, low, high, lowBits, table, steps, ahead)
	case !avx512():
		expandGeneric(dst, low, high, lowBits, table, steps)
	case high != nil && lowBits == 2:
		asm.Expand3AVX512(&dst[0], &low[0], &high[:steps*8][0], &table[0], steps, ahead)
	case high != nil && lowBits == 4:
		asm.Expand5AVX512(&dst[0], &low[0], &high[:steps*8][0], &table[0], steps, ahead)
	case lowBits == 1:
		asm.Expand1AVX512(&dst[0], &low[0], nil, &table[0], steps, ahead)
	case lowBits == 2:
		asm.Expand2AVX512(&dst[0], &low[0], nil, &table[0], steps, ahead)
	default:
		asm.Expand4AVX512(&dst[0], &low[0], nil, &table[0], steps, ahead)
	}
}

// Variants of decode, by whether levels are exact and vecs is 4.
type decodeFunc = func(dst, codes *byte, groups int, table *float32, flip uint32)

var (
	decode512 = [2][2]decodeFunc{{asm.DecodeTable2AVX512, asm.DecodeTable4AVX512}, {asm.DecodeInt2AVX512, asm.DecodeInt4AVX512}}
	decode256 = [2][2]decodeFunc{{asm.DecodeTable2AVX2, asm.DecodeTable4AVX2}, {asm.DecodeInt2AVX2, asm.DecodeInt4AVX2}}
)

func decode(dst, codes []byte, groups, vecs int, l *levels) {
	f := &decode512
	switch {
	case avx2():
		f = &decode256
	case !avx512():
		decodeGeneric(dst, codes, groups, vecs, l)
		return
	}
	exact := 0
	if l.exact {
		exact = 1
	}
	n := groups * vecs
	f[exact][vecs/4](&dst[:256*n][0], &codes[:64*n][0], groups, &l.float[0], uint32(l.zero)*0x01010101)
}

func transpose(dst, codes []byte, vecs int, flip byte) {
	if !avx512() {
		transposeGeneric(dst, codes, vecs, flip)
		return
	}
	f := asm.Transpose4AVX512
	if vecs == 2 {
		f = asm.Transpose2AVX512
	}
	f(&dst[:1024*vecs][0], &codes[:1024*vecs][0], uint32(flip)*0x01010101)
}

func dotTokens(a *dotTokensArgs) {
	switch {
	case avx512() && a.q.per == 1: // tokensRun has the kernels for two-row queries
		dotTokensAVX512(a)
	case avx2():
		dotTokensAVX2(a)
	default:
		dotTokensGeneric(a)
	}
}

func dotTokensAVX512(a *dotTokensArgs) {
	q := a.q
	at := a.group * q.blocks * panel
	chunks := q.values / q.blocks / 32
	_, _ = a.dst[a.n*Cells-1], a.scales[2*q.blocks*Cells-1]
	_ = a.tile[q.values*Cells-1]
	tokens512[a.n-1](&a.dst[0], &a.tile[0], &q.q[a.group*q.values*panel], &q.scale[at], &q.init[at], &a.scales[0], q.blocks, chunks)
}

func dotValues(a *dotValuesArgs) {
	switch {
	case a.groups == 0:
	case avx512():
		dotValuesAVX512(a)
	case avx2():
		dotValuesAVX2(a)
	default:
		dotValuesGeneric(a)
	}
}

func dotValuesAVX512(a *dotValuesArgs) {
	_ = a.acc[(a.n-1)*a.ld+16*a.vecs-1]
	_ = a.tile[1024*a.vecs-1]
	f := &values4x512
	if a.vecs == 2 {
		f = &values2x512
	}
	f[a.n-1](&a.acc[0], 4*a.ld, &a.tile[0], &a.w[0][0], &a.scale[0], a.groups, a.ahead)
}

func roundWeights(dst *[panel][Cells]uint8, w []float32, n int, scales []byte, sign float32, amax *[panel]float32) bool {
	var flip uint32
	if sign < 0 {
		flip = 1 << 31
	}
	_, _, _ = dst[n-1], w[n*Cells-1], scales[2*Cells-1]
	switch {
	case avx512():
		return asm.RoundWeightsAVX512(&dst[0][0], &w[0], &scales[0], flip, n, &amax[0]) != 0
	case avx2():
		return asm.RoundWeightsAVX2(&dst[0][0], &w[0], &scales[0], flip, n, &amax[0]) != 0
	}
	return roundWeightsGeneric(dst, w, n, scales, sign, amax)
}

func addHalf(dst []float32, x []byte, f float32) {
	switch {
	case avx512():
		asm.AddHalfAVX512(&dst[:Cells][0], &x[:2*Cells][0], f)
	case avx2():
		asm.AddHalfAVX2(&dst[:Cells][0], &x[:2*Cells][0], f)
	default:
		addHalfGeneric(dst, x, f)
	}
}

func addScaled(dst, raw []float32, x []byte) {
	switch {
	case avx512():
		asm.AddScaledAVX512(&dst[:len(raw)][0], &raw[0], &x[:2*Cells][0], len(raw)/Cells)
	case avx2():
		asm.AddScaledAVX2(&dst[:len(raw)][0], &raw[0], &x[:2*Cells][0], len(raw)/Cells)
	default:
		addScaledGeneric(dst, raw, x)
	}
}

func mulHalf(dst, w []float32, x []byte) {
	switch {
	case avx512():
		asm.MulHalfAVX512(&dst[0], &w[:len(dst)][0], &x[:2*Cells][0], len(dst)/Cells)
	case avx2():
		asm.MulHalfAVX2(&dst[0], &w[:len(dst)][0], &x[:2*Cells][0], len(dst)/Cells)
	default:
		mulHalfGeneric(dst, w, x)
	}
}

func dotHalf(w []float32, x []byte) float32 {
	switch {
	case avx512():
		return asm.DotHalfAVX512(&w[:Cells][0], &x[:2*Cells][0])
	case avx2():
		return asm.DotHalfAVX2(&w[:Cells][0], &x[:2*Cells][0])
	}
	return dotHalfGeneric(w, x)
}

func logits(s []float32, stride int, factor float32, visible []uint64, top float32) float32 {
	switch {
	case avx512():
		return asm.LogitsAVX512(&s[0], 4*stride, len(visible), factor, &visible[0], top)
	case avx2():
		return asm.LogitsAVX2(&s[0], 4*stride, len(visible), factor, &visible[0], top)
	}
	return logitsGeneric(s, stride, factor, visible, top)
}

func weights(s []float32, stride int, visible []uint64, top, tau float32, kept []uint64) float32 {
	switch {
	case avx512():
		return asm.WeightsAVX512(&s[0], 4*stride, len(visible), &visible[0], top, tau, &kept[0])
	case avx2():
		return asm.WeightsAVX2(&s[0], 4*stride, len(visible), &visible[0], top, tau, &kept[0])
	}
	return weightsGeneric(s, stride, visible, top, tau, kept)
}
