package sample

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"godwit/engine/llm"
)

// Mask is the set of tokens that may be drawn. Bit t%64 of word t/64 is for
// token t. nil allows every token. Bits beyond the vocabulary are ignored.
type Mask = []uint64

// view is a row of logits under a mask, read in blocks of 64 tokens.
type view struct {
	logits []float32
	mask   Mask
}

const block = 64

func (v view) blocks() int { return (len(v.logits) + block - 1) / block }

// row returns block b and its mask. all reports whether every token of the
// block is allowed.
func (v view) row(b int) (row []float32, word uint64, all bool) {
	lo := b * block
	row = v.logits[lo:min(lo+block, len(v.logits))]
	full := ^uint64(0) >> (block - len(row))
	if v.mask == nil {
		return row, full, true
	}
	word = v.mask[b] & full
	return row, word, word == full
}

// max returns the most likely candidate, and among equals the one with the
// lowest id. It fails if a candidate is NaN or infinite, or if there is no
// candidate.
func (v view) max() (best float32, id llm.Token, err error) {
	best, id = float32(math.Inf(-1)), -1
	for b := range v.blocks() {
		row, word, all := v.row(b)
		if all {
			for i, x := range row {
				if !(x <= best) { // also reached for NaN
					if x != x {
						return 0, 0, nanError(b, i)
					}
					best, id = x, llm.Token(b*block+i)
				}
			}
			continue
		}
		for ; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			if x := row[i]; !(x <= best) {
				if x != x {
					return 0, 0, nanError(b, i)
				}
				best, id = x, llm.Token(b*block+i)
			}
		}
	}
	return best, id, v.check(best, id)
}

// check fails if id is not a valid best candidate.
func (v view) check(best float32, id llm.Token) error {
	if id < 0 {
		return fmt.Errorf("%w: none of %d tokens is a candidate", ErrLogits, len(v.logits))
	}
	if math.IsInf(float64(best), 1) {
		return fmt.Errorf("%w: token %d has +Inf", ErrLogits, id)
	}
	return nil
}

func nanError(b, i int) error {
	return fmt.Errorf("%w: token %d has NaN", ErrLogits, b*block+i)
}

// sum returns Σ e^((x-top)·scale) over the candidates. If part is not nil, it
// gets the sum of each block.
func (v view) sum(top float32, scale float64, part []float64) float64 {
	total, base := 0.0, float64(top)
	for b := range v.blocks() {
		row, word, all := v.row(b)
		sub := 0.0
		if all {
			sub = expSum(row, base, scale)
		} else {
			for ; word != 0; word &= word - 1 {
				sub += exp(float64((float64(row[bits.TrailingZeros64(word)]) - base) * scale))
			}
		}
		if part != nil {
			part[b] = sub
		}
		total += sub
	}
	return total
}

// gather appends the candidates whose logits are at least cut.
func (v view) gather(dst []cand, cut float32) []cand {
	for b := range v.blocks() {
		row, word, all := v.row(b)
		if all {
			for i, x := range row {
				if x >= cut {
					dst = append(dst, cand{id: llm.Token(b*block + i), logit: x})
				}
			}
			continue
		}
		for ; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			if x := row[i]; x >= cut {
				dst = append(dst, cand{id: llm.Token(b*block + i), logit: x})
			}
		}
	}
	return dst
}

// top returns the k most likely candidates in descending order, and among
// equals the lowest ids first. It uses the capacity of dst. It fails if max
// does.
func (v view) top(dst []cand, k int) ([]cand, error) {
	heap := dst[:0]
	floor := float32(math.Inf(-1))
	for b := range v.blocks() {
		row, word, all := v.row(b)
		if all {
			for i, x := range row {
				if !(x <= floor) {
					if x != x {
						return nil, nanError(b, i)
					}
					heap, floor = offer(heap, k, cand{id: llm.Token(b*block + i), logit: x})
				}
			}
			continue
		}
		for ; word != 0; word &= word - 1 {
			i := bits.TrailingZeros64(word)
			if x := row[i]; !(x <= floor) {
				if x != x {
					return nil, nanError(b, i)
				}
				heap, floor = offer(heap, k, cand{id: llm.Token(b*block + i), logit: x})
			}
		}
	}
	slices.SortFunc(heap, byRank)
	if len(heap) == 0 {
		return heap, v.check(0, -1)
	}
	return heap, v.check(heap[0].logit, heap[0].id)
}
