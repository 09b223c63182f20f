package attn

import (
	"math/bits"
	"unsafe"

	"godwit/engine/dtype"
)

// Each kernel has a plain Go form, which is the reference, and variants for the CPU
// tiers. kernels_amd64.go, kernels_arm64.go and kernels_noasm.go select the variant.
// Int8 arithmetic gives the same bits everywhere, because integer sums are exact,
// and the product and the sum that follow are each rounded. Float kernels may use
// fused multiply-add. Kernels with an ahead argument prefetch the bytes at that
// distance from the bytes that they read, or nothing if ahead is 0.
//
//	mulAdd     adds coef[i][s]·x[s] to acc[i] for every step s, in ascending order
//	expand     makes a byte of every code: dst has steps·64 bytes, low is a plane of
//	           lowBits, high a plane of one bit above them or nil
//	decode     makes floats of the bytes of a chunk: codes are [groups][vecs] steps
//	           of 16 lanes of 4, dst is [4·groups][16·vecs] float32 with the four
//	           contiguous in the first index
//	transpose  transposes a chunk of 16·vecs values from the order of K to that of V,
//	           and xors every byte with flip
//	transposeFloats transposes [width][64 tokens] stored values to [64 tokens][width] float32
//	dotTokens  adds scale·unit·Σ level·query of n rows to rows of Cells: tile is a page of
//	           unsigned bytes in the order of K, scales is [block][Cells] f16. It
//	           expands planes itself where these can be read for n rows
//	dotValues  adds scale[i]·Σ w[i][t]·tile[t] to n rows of acc: tile is a chunk of
//	           signed bytes in the order of V, groups has a bit per four tokens; it
//	           expands planes likewise
//	addHalf    adds f·x to a row of Cells, x in f16
//	addScaled  adds raw·x to rows of Cells, x one row in f16
//	mulHalf    multiplies rows of Cells by x, x one row in f16; a weight of zero stays
//	           zero even if x is infinite or NaN
//	dotHalf    returns Σ w·x over Cells, x in f16; a weight of zero adds nothing

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// mulAddArgs are the arguments of mulAdd.
type mulAddArgs struct {
	acc    []float32 // [n] rows of lanes values, ld apart
	ld     int
	n      int // at most panel
	lanes  int // at most 64
	x      []byte
	pitch  int        // bytes between the steps of x
	stored dtype.Type // f32, f16 or bf16; the zero value is f32
	finite bool       // read infinity and NaN as the largest finite value
	coef   []float32  // [n][64]
	steps  uint64     // one bit per step to add
	ahead  int
}

// lastStep returns the index of the highest set bit.
func lastStep(steps uint64) int { return bits.Len64(steps) - 1 }

// dotTokensArgs are the arguments of dotTokens for one panel of rows.
type dotTokensArgs struct {
	dst    []float32 // [n/q.per][Cells]
	n      int       // number of rows
	tile   []byte
	q      *operand
	planes planes // used instead of tile if it has bits
	group  int    // index of the panel
	scales []byte
	ahead  int
}

// planes holds the codes of a page in planes.
type planes struct {
	low, high []byte
	bits      int
	table     *[64]byte
}

// dotTokensAll adds the scores of n queries.
func dotTokensAll(dst []float32, n int, tile []byte, q *operand, scales []byte, ahead int) {
	n *= q.per
	for i := 0; i < n; i += panel {
		dotTokens(&dotTokensArgs{dst: dst[i/q.per*Cells:], n: min(panel, n-i), tile: tile, q: q, group: i / panel, scales: scales, ahead: ahead})
		ahead = 0
	}
}

// dotValuesArgs are the arguments of dotValues.
type dotValuesArgs struct {
	acc    []float32 // [n] rows of 16·vecs values, ld apart
	ld, n  int
	tile   []byte
	planes planes // used instead of tile if it has bits, starting at value first
	first  int
	vecs   int
	w      *[panel][Cells]uint8
	scale  *[panel]float32
	groups uint64
	ahead  int
}

// weights8 are the weights of a panel for one block, rounded to 8 bits with one
// scale per row. Products with negative token scales are in neg.
type weights8 struct {
	pos, neg        [panel][Cells]uint8
	scale, negScale [panel]float32
	signed          bool
}

// set rounds the weights times the scales of the tokens. A zero weight gives
// zero, whatever the scale is. unit is multiplied into the scale of the row.
func (w *weights8) set(weight []float32, n int, scales []byte, unit float32) {
	w.signed = roundWeights(&w.pos, weight, n, scales, 1, &w.scale)
	if w.signed {
		roundWeights(&w.neg, weight, n, scales, -1, &w.negScale)
	}
	for i := range n {
		s := w.scale[i] / 255 * unit
		if !(w.scale[i] >= tiny) {
			s = 0
		}
		w.scale[i], w.negScale[i] = s, -s
	}
}
