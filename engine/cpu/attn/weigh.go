package attn

import (
	"math"
	"math/bits"

	"godwit/engine/cpu/kernel"
)

// Weigh turns the logits of a page, s[:Cells] times factor, into weights
// e^(logit-top) and returns the new top, the largest logit so far, the sum of
// the weights, and which are kept. Cells that are not visible, and those whose
// weight is below tau, get weight 0; the latter stay in the sum. A NaN counts
// as the smallest logit and an infinity as the largest.
func Weigh(s []float32, factor float32, visible uint64, top, tau float32) (newTop, sum float32, kept uint64) {
	p := (*[Cells]float32)(s)
	if visible == 0 {
		*p = [Cells]float32{}
		return top, 0, 0
	}
	return weigh(p, factor, visible, top, tau)
}

func weighGeneric(s *[Cells]float32, factor float32, visible uint64, top, tau float32) (newTop, sum float32, kept uint64) {
	for left := visible; left != 0; left &= left - 1 {
		t := bits.TrailingZeros64(left)
		v := float32(s[t] * factor)
		switch {
		case v != v, v < -math.MaxFloat32:
			v = -math.MaxFloat32
		case v > math.MaxFloat32:
			v = math.MaxFloat32
		}
		s[t] = v
		top = max(top, v)
	}
	for t := range s {
		s[t] -= top
		if visible>>t&1 == 0 {
			s[t] = 0
		}
	}
	kernel.Exp(s[:], s[:])
	var lanes [16]float32
	for t := range s {
		if visible>>t&1 == 0 {
			s[t] = 0
		}
	}
	for i := range lanes {
		lanes[i] = (s[i] + s[16+i]) + (s[32+i] + s[48+i])
	}
	for left := visible; left != 0; left &= left - 1 {
		t := bits.TrailingZeros64(left)
		if s[t] >= tau {
			kept |= 1 << t
		} else {
			s[t] = 0
		}
	}
	return top, fold(&lanes), kept
}
