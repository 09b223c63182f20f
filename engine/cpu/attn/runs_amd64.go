package attn

import (
	"unsafe"

	"godwit/engine/cpu/attn/asm"
	"godwit/engine/kv"
)

// reads returns false because the kernels that read planes process runs of
// pages.
func (p *planes) reads(int) bool { return false }

// Kernels that process several pages in one call, because a decode step spends
// less than a tenth of a microsecond on each page. The first kernel of a list
// is for one row of queries or weights.
type (
	tokensRunFunc = func(dst *float32, visits *byte, n, low, high, scales int, table *byte, q *int8, qscale *float32, init *int32, blocks, chunks int)
	valuesRunFunc = func(acc *float32, visits *byte, n, low, high, scales int, table *byte, w *float32, rounded *byte, scale *float32, unit float32, ld, blocks, chunks int) (left, blocksLeft int)
)

// fusedRows is the largest number of rows for which codes in planes are looked
// up and multiplied in one pass. trellisRows is the same for trellis codes. For
// more rows it is cheaper to store the bytes first.
const (
	fusedRows   = 4
	trellisRows = panel
)

var (
	tokensTwice512 = [panel / 2]tokensRunFunc{asm.Tokens1twiceAVX512, asm.Tokens2twiceAVX512, asm.Tokens3twiceAVX512}
	tokensRun512   = [9][fusedRows]tokensRunFunc{
		2: {asm.Tokens1bits2AVX512, asm.Tokens2bits2AVX512, asm.Tokens3bits2AVX512, asm.Tokens4bits2AVX512},
		3: {asm.Tokens1bits3AVX512, asm.Tokens2bits3AVX512, asm.Tokens3bits3AVX512, asm.Tokens4bits3AVX512},
		4: {asm.Tokens1bits4AVX512, asm.Tokens2bits4AVX512, asm.Tokens3bits4AVX512, asm.Tokens4bits4AVX512},
	}
	// tokensTrellis512 holds kernels for trellis codes of any number of bits.
	tokensTrellis512 = [trellisRows]tokensRunFunc{asm.Tokens1trellisAVX512, asm.Tokens2trellisAVX512, asm.Tokens3trellisAVX512, asm.Tokens4trellisAVX512, asm.Tokens5trellisAVX512, asm.Tokens6trellisAVX512}
	valuesTrellis512 = [trellisRows]valuesRunFunc{asm.Values1trellisAVX512, asm.Values2trellisAVX512, asm.Values3trellisAVX512, asm.Values4trellisAVX512, asm.Values5trellisAVX512, asm.Values6trellisAVX512}
	// valuesRun512 holds kernels by bits, for chunks of 32 and of 64 values.
	valuesRun512 = [9][2][fusedRows]valuesRunFunc{
		2: {
			{asm.Values1x2bits2AVX512, asm.Values2x2bits2AVX512, asm.Values3x2bits2AVX512, asm.Values4x2bits2AVX512},
			{asm.Values1x4bits2AVX512, asm.Values2x4bits2AVX512, asm.Values3x4bits2AVX512, asm.Values4x4bits2AVX512},
		},
		3: {
			{asm.Values1x2bits3AVX512, asm.Values2x2bits3AVX512, asm.Values3x2bits3AVX512, asm.Values4x2bits3AVX512},
			{asm.Values1x4bits3AVX512, asm.Values2x4bits3AVX512, asm.Values3x4bits3AVX512, asm.Values4x4bits3AVX512},
		},
		4: {
			{asm.Values1x2bits4AVX512, asm.Values2x2bits4AVX512, asm.Values3x2bits4AVX512, asm.Values4x2bits4AVX512},
			{asm.Values1x4bits4AVX512, asm.Values2x4bits4AVX512, asm.Values3x4bits4AVX512, asm.Values4x4bits4AVX512},
		},
		8: {
			{asm.Values1x2bits8AVX512, asm.Values2x2bits8AVX512, asm.Values3x2bits8AVX512, asm.Values4x2bits8AVX512},
			{asm.Values1x4bits8AVX512, asm.Values2x4bits8AVX512, asm.Values3x4bits8AVX512, asm.Values4x4bits8AVX512},
		},
	}
)

// bits returns the bits of a code, in one plane or two.
func (p *codes) bits() int { return p.low.bits + p.high.bits }

// run reports whether pages contain only codes and scales and are read with
// integer arithmetic.
func (p *codes) run() bool {
	return avx512() && !p.float && p.min < 0 && p.sign.bits == 0
}

// placed returns the tables of the kernels. Kernels for byte codes do not read
// them.
func (p *codes) placed() *byte { return unsafe.SliceData(p.levels.placed) }

// check panics if visits extend beyond their pages, or n rows beyond x.
func (p *codes) check(x []float32, n int, visits []Visit) {
	for i := range visits {
		v := &visits[i]
		_, _ = v.Page[p.read.at+p.read.n-1], x[v.At+n*Cells-1]
	}
}

// tokensRun computes scores if it has a kernel for them, and otherwise returns
// false.
func (p *codes) tokensRun(dst []float32, r *prepared, n int, visits []Visit) bool {
	if !p.run() || len(visits) == 0 {
		return false
	}
	q := &r.codes
	switch {
	case p.cyclic != nil:
		if n > trellisRows {
			return false
		}
		p.check(dst, n, visits)
		p.tokensTrellis(dst, q, n, visits)
		return true
	case p.levels.plain:
		p.check(dst, n, visits)
		if n <= panel/2 {
			p.tokens(tokensTwice512[n-1], dst, q, 0, visits)
			return true
		}
		for i := range visits {
			one := visits[i : i+1]
			for first := 0; first < n; first += panel / 2 {
				p.tokens(tokensTwice512[min(panel/2, n-first)-1], dst[first*Cells:], q, 2*first/panel, one)
			}
		}
		return true
	}
	if n > fusedRows || tokensRun512[p.bits()][n-1] == nil {
		return false
	}
	p.check(dst, n, visits)
	p.tokens(tokensRun512[p.bits()][n-1], dst, q, 0, visits)
	return true
}

// tokens calls a kernel for one panel of queries.
func (p *codes) tokens(f tokensRunFunc, dst []float32, q *operand, group int, visits []Visit) {
	at := group * q.blocks * panel
	f(&dst[0], (*byte)(unsafe.Pointer(&visits[0])), len(visits), p.low.at, p.high.at, p.scale, p.placed(),
		&q.q[group*q.values*panel], &q.scale[at], &q.init[at], q.blocks, q.values/q.blocks/32)
}

// tokensTrellis calls a kernel for n queries, at most a panel.
func (p *codes) tokensTrellis(dst []float32, q *operand, n int, visits []Visit) {
	tokensTrellis512[n-1](&dst[0], (*byte)(unsafe.Pointer(&visits[0])), len(visits), p.low.at, p.cyclic.bits, p.scale, &p.cyclic.table[0],
		&q.q[0], &q.scale[0], &q.init[0], q.blocks, p.elems/8)
}

// valuesRun accumulates as many pages as a kernel can process, and then blocks
// of the next page.
func (p *codes) valuesRun(acc []float32, ld int, w []float32, n int, visits []Visit, s *Scratch) (done, blocks int) {
	if p.side != kv.V || !p.run() || len(visits) == 0 {
		return 0, 0
	}
	var f valuesRunFunc
	table, high, chunk := p.placed(), p.high.at, p.chunk
	switch y := p.cyclic; {
	case y != nil && n <= trellisRows:
		f, table, high, chunk = valuesTrellis512[n-1], &y.table[0], y.bits, 32
	case y == nil && n <= fusedRows:
		f = valuesRun512[p.bits()][p.chunk/64][n-1]
	}
	if f == nil {
		return 0, 0
	}
	p.check(w, n, visits)
	_ = acc[(n-1)*ld+p.Lane+p.values-1]
	left, blocksLeft := f(&acc[p.Lane], (*byte)(unsafe.Pointer(&visits[0])), len(visits), p.low.at, high, p.scale,
		table, &w[0], &s.w8.pos[0][0], &s.w8.scale[0], p.levels.unit, 4*ld, p.Blocks, p.values/p.Blocks/chunk)
	return len(visits) - left, (p.Blocks - blocksLeft) % p.Blocks
}
