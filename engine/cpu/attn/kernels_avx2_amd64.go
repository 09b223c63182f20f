package attn

import (
	"godwit/engine/cpu/attn/asm"
	"godwit/engine/dtype"
)

type mulAdd2Func = func(acc *float32, ld int, x *byte, pitch int, coef *float32, steps uint64, ahead int)

// Kernels by number of rows minus one, and by whether they process four vectors
// of eight lanes or one.
var (
	mulAddF16v2        = [2][2]mulAdd2Func{{asm.MulAddF161x1AVX2, asm.MulAddF161x4AVX2}, {asm.MulAddF162x1AVX2, asm.MulAddF162x4AVX2}}
	mulAddBF16v2       = [2][2]mulAdd2Func{{asm.MulAddBF161x1AVX2, asm.MulAddBF161x4AVX2}, {asm.MulAddBF162x1AVX2, asm.MulAddBF162x4AVX2}}
	mulAddF32v2        = [2][2]mulAdd2Func{{asm.MulAddF321x1AVX2, asm.MulAddF321x4AVX2}, {asm.MulAddF322x1AVX2, asm.MulAddF322x4AVX2}}
	mulAddBF16Finitev2 = [2][2]mulAdd2Func{{asm.MulAddBF16Finite1x1AVX2, asm.MulAddBF16Finite1x4AVX2}, {asm.MulAddBF16Finite2x1AVX2, asm.MulAddBF16Finite2x4AVX2}}
	mulAddF32Finitev2  = [2][2]mulAdd2Func{{asm.MulAddF32Finite1x1AVX2, asm.MulAddF32Finite1x4AVX2}, {asm.MulAddF32Finite2x1AVX2, asm.MulAddF32Finite2x4AVX2}}
)

// mulAddAVX2 needs whole vectors of eight lanes.
func mulAddAVX2(a *mulAddArgs) {
	f, size := &mulAddF32v2, 4
	switch {
	case a.stored == dtype.F16:
		f, size = &mulAddF16v2, 2
	case a.stored == dtype.BF16 && a.finite:
		f, size = &mulAddBF16Finitev2, 2
	case a.stored == dtype.BF16:
		f, size = &mulAddBF16v2, 2
	case a.finite:
		f = &mulAddF32Finitev2
	}
	lanes := a.lanes
	last := lastStep(a.steps)
	_ = a.x[last*a.pitch+lanes*size-1]
	_ = a.acc[(a.n-1)*a.ld+lanes-1]
	_ = a.coef[(a.n-1)*64+last]
	ahead := a.ahead
	for i := 0; i < a.n; i += 2 {
		rows := min(2, a.n-i) - 1
		for j := 0; j < lanes; {
			wide, n := 0, 8
			if lanes-j >= 32 {
				wide, n = 1, 32
			}
			f[rows][wide](&a.acc[i*a.ld+j], 4*a.ld, &a.x[j*size], a.pitch, &a.coef[i*64], a.steps, ahead)
			j += n
		}
		ahead = 0
	}
}

func expandAVX2(dst, low, high []byte, lowBits int, table *[64]byte, steps, ahead int) {
	switch {
	case high != nil && lowBits == 2:
		asm.Expand3AVX2(&dst[0], &low[0], &high[:steps*8][0], &table[0], steps, ahead)
	case high != nil && lowBits == 4:
		asm.Expand5AVX2(&dst[0], &low[0], &high[:steps*8][0], &table[0], steps, ahead)
	case lowBits == 1:
		asm.Expand1AVX2(&dst[0], &low[0], nil, &table[0], steps, ahead)
	case lowBits == 2:
		asm.Expand2AVX2(&dst[0], &low[0], nil, &table[0], steps, ahead)
	default:
		asm.Expand4AVX2(&dst[0], &low[0], nil, &table[0], steps, ahead)
	}
}

type tokens2Func = func(dst *float32, tile *byte, q *int8, qscale *float32, scales *byte, blocks, chunks, ahead int)

// tokens256 holds kernels by rows per query and number of queries, each minus one.
var tokens256 = [2][3]tokens2Func{
	{asm.Tokens1AVX2, asm.Tokens2AVX2, asm.Tokens3AVX2},
	{asm.TokensTwice1AVX2, asm.TokensTwice2AVX2, asm.TokensTwice3AVX2},
}

func dotTokensAVX2(a *dotTokensArgs) {
	q := a.q
	n, chunks, ahead := a.n/q.per, q.values/q.blocks/32, a.ahead
	_, _, _ = a.dst[n*Cells-1], a.tile[q.values*Cells-1], a.scales[2*q.blocks*Cells-1]
	blocks := q.blocks
	if q.per == 2 {
		blocks = 1 // both rows of a block come before the next block, as in the other kernels
	}
	for b := 0; b < q.blocks; b += blocks {
		v, at := b*q.values/q.blocks, (a.group*q.blocks+b)*panel
		for step := range q.per {
			for i := 0; i < n; i += 3 {
				row := i*q.per + step
				tokens256[q.per-1][min(3, n-i)-1](&a.dst[i*Cells], &a.tile[v*Cells], &q.q[(a.group*q.values+v)*panel+row*32],
					&q.scale[at+row], &a.scales[2*b*Cells], blocks, chunks, ahead)
				ahead = 0
			}
		}
		ahead = a.ahead
	}
}

func dotValuesAVX2(a *dotValuesArgs) {
	_, _ = a.acc[(a.n-1)*a.ld+16*a.vecs-1], a.tile[1024*a.vecs-1]
	ahead := a.ahead
	for i := 0; i < a.n; i += 2 {
		for v := 0; v < a.vecs; v += 2 {
			f := asm.Values2AVX2
			if a.n-i == 1 {
				f = asm.Values1AVX2
			}
			f(&a.acc[i*a.ld+16*v], 4*a.ld, &a.tile[64*v], &a.w[i][0], &a.scale[i], a.groups, 64*a.vecs, ahead)
		}
		ahead = 0
	}
}
