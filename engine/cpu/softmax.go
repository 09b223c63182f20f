package cpu

import (
	"math"

	"godwit/engine/cpu/kernel"
)

// softmax is an unfinished softmax: the running maximum, the sum of weights,
// and the weighted sum of V in the rotated domain.
type softmax struct {
	max, sum float32
	acc      []float32
}

func exp(x float32) float32 {
	if x == 0 { // the chunk with the larger maximum has factor 1
		return 1
	}
	return float32(math.Exp(float64(x)))
}

func (s *softmax) reset() {
	s.max, s.sum = float32(math.Inf(-1)), 0
	clear(s.acc)
}

// settle makes a chunk without weights neutral, so that merge ignores it.
func (s *softmax) settle() {
	if s.sum == 0 {
		s.reset()
	}
}

// raise sets the maximum to top, which must be at least the maximum so far.
func (s *softmax) raise(top float32) {
	if top > s.max && s.sum > 0 {
		f := exp(s.max - top)
		s.sum *= f
		kernel.Scale(s.acc, s.acc, f)
	}
	s.max = top
}

// merge adds a later chunk.
func (s *softmax) merge(chunk *softmax) {
	if chunk.sum == 0 {
		return
	}
	if s.sum == 0 {
		s.max, s.sum = chunk.max, chunk.sum
		copy(s.acc, chunk.acc)
		return
	}
	top := max(s.max, chunk.max)
	add := exp(chunk.max - top)
	s.raise(top)
	s.sum += float32(chunk.sum * add)
	kernel.Axpy(s.acc, chunk.acc, add)
}

// sink adds a logit without a value.
func (s *softmax) sink(logit float32) {
	top := max(s.max, logit)
	s.raise(top)
	s.sum += exp(logit - top)
}
