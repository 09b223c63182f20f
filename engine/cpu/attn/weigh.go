package attn

import (
	"math"
	"math/bits"

	"godwit/engine/cpu/kernel"
)

// Logits multiplies scores by factor and returns the largest of top and the
// visible results. s has a row of Cells per page. Pages are stride apart.
// visible has one bit per cell. NaN counts as the smallest logit, infinity as
// the largest.
func Logits(s []float32, stride int, factor float32, visible []uint64, top float32) float32 {
	_ = s[(len(visible)-1)*stride+Cells-1]
	return logits(s, stride, factor, visible, top)
}

// Weights turns logits into e^(logit-top) and returns their sum. top is at
// least the largest visible logit. Invisible cells and cells with a weight
// below tau get weight 0, but the latter stay in the sum. kept gets the bits of
// all other cells.
func Weights(s []float32, stride int, visible []uint64, top, tau float32, kept []uint64) float32 {
	_, _ = s[(len(visible)-1)*stride+Cells-1], kept[len(visible)-1]
	return weights(s, stride, visible, top, tau, kept)
}

func logitsGeneric(s []float32, stride int, factor float32, visible []uint64, top float32) float32 {
	for page, seen := range visible {
		row := s[page*stride:][:Cells]
		for t, v := range row {
			v = float32(v * factor)
			switch {
			case v != v, v < -math.MaxFloat32:
				v = -math.MaxFloat32
			case v > math.MaxFloat32:
				v = math.MaxFloat32
			}
			row[t] = v
			if seen>>t&1 == 1 {
				top = max(top, v)
			}
		}
	}
	return top
}

func weightsGeneric(s []float32, stride int, visible []uint64, top, tau float32, kept []uint64) float32 {
	var lanes [16]float32
	for page, seen := range visible {
		row := s[page*stride:][:Cells]
		for t := range row {
			row[t] = min(row[t]-top, 0)
		}
		kernel.Exp(row, row)
		for t := range row {
			if seen>>t&1 == 0 {
				row[t] = 0
			}
		}
		for i := range lanes {
			lanes[i] += (row[i] + row[16+i]) + (row[32+i] + row[48+i])
		}
		kept[page] = 0
		for ; seen != 0; seen &= seen - 1 {
			t := bits.TrailingZeros64(seen)
			if row[t] >= tau {
				kept[page] |= 1 << t
			} else {
				row[t] = 0
			}
		}
	}
	return fold(&lanes)
}
