package attn

import (
	"unsafe"

	"godwit/engine/dtype"
)

// The kernels. Each has a plain Go form, which is the reference, and variants
// by tier. Integer sums are exact, and what follows them is a product and a
// sum, each rounded, so int8 arithmetic gives the same bits everywhere; the
// float kernels may fuse products into sums.

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// mulAddArgs are the arguments of mulAdd.
type mulAddArgs struct {
	acc    []float32 // [n] rows of lanes values, ld apart
	ld     int
	n      int // at most panel
	lanes  int // at most 64
	x      []byte
	pitch  int        // bytes from step to step of x
	stored dtype.Type // f32, f16 or bf16; the zero value is f32
	finite bool       // read an infinity or a NaN as the largest finite value
	coef   []float32  // [n][64]
	steps  uint64     // a bit for each step to add
}

// mulAdd adds coef[i][s]·x[s] to acc[i] for every step s, in ascending order.
func mulAdd(a mulAddArgs) { mulAddGeneric(&a) }

// expand makes a byte of every code: dst has steps·64 bytes, low a plane of
// lowBits, high a plane of one bit above them or nil.
func expand(dst, low, high []byte, lowBits int, table *[64]byte, steps int) {
	expandGeneric(dst, low, high, lowBits, table, steps)
}

// decode makes floats of the bytes of a chunk: codes are [groups][vecs] steps
// of 16 lanes of 4, dst is [4·groups][16·vecs] float32 with the four side by
// side in the first index.
func decode(dst, codes []byte, groups, vecs int, l *levels) {
	decodeGeneric(dst, codes, groups, vecs, l)
}

// turn reorders a chunk of 16·vecs values from the order of K to that of V,
// and flips the bits of flip in every byte.
func turn(dst, codes []byte, vecs int, flip byte) { turnGeneric(dst, codes, vecs, flip) }

// dotTokens adds scale·unit·Σ level·query to the n rows of dst, [n][Cells]:
// tile is a page of unsigned bytes in the order of K, scales [block][Cells] f16.
func dotTokens(dst []float32, n int, tile []byte, q *operand, scales []byte) {
	for i := 0; i < n; i += panel {
		dotTokensGeneric(dst[i*Cells:], min(panel, n-i), tile, q, i/panel, scales)
	}
}

// weights8 are the weights of a panel for one block, rounded to 8 bits with
// one scale a row. Where scales are negative their tokens stand in neg.
type weights8 struct {
	pos, neg        [panel][Cells]uint8
	scale, negScale [panel]float32
	signed          bool
}

// set rounds the weights times the scales of the tokens; a weight of zero
// stays zero whatever the scale. unit goes to the scale of the row.
func (w *weights8) set(weight []float32, n int, scales []byte, unit float32) {
	w.signed = false
	for i := range n {
		w.setGeneric(i, weight[i*Cells:(i+1)*Cells], scales, unit)
	}
}

// dotValues adds scale[i]·Σ w[i][t]·tile[t] to the n rows of acc: tile is a
// chunk of signed bytes in the order of V, groups a bit for each four tokens.
func dotValues(acc []float32, ld, n int, tile []byte, vecs int, w *[panel][Cells]uint8, scale *[panel]float32, groups uint64) {
	dotValuesGeneric(acc, ld, n, tile, vecs, w, scale, groups)
}

// addHalf adds f·x to a row of Cells, x in f16.
func addHalf(dst []float32, x []byte, f float32) { addHalfGeneric(dst, x, f) }

// addScaled adds raw·x to rows of Cells, x one row in f16.
func addScaled(dst, raw []float32, x []byte) { addScaledGeneric(dst, raw, x) }

// mulHalf makes w·x of rows of Cells, x one row in f16; a zero stays zero
// whatever x is.
func mulHalf(dst, w []float32, x []byte) { mulHalfGeneric(dst, w, x) }

// dotHalf is Σ w·x over Cells, x in f16; a zero of w counts as nothing.
func dotHalf(w []float32, x []byte) float32 { return dotHalfGeneric(w, x) }
