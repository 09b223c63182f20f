package kernel

import "math"

func quantizeGeneric(dst []actBlock, x []float32) {
	for b := range dst {
		v := x[b*32 : b*32+32 : b*32+32]
		var top uint32
		for _, f := range v {
			top = max(top, math.Float32bits(f)&0x7fffffff)
		}
		blk := &dst[b]
		*blk = actBlock{}
		if top >= 0x7f800000 {
			blk.d = math.Float32frombits(0x7fc00000)
			blk.s = blk.d
			continue
		}
		if top < 0x07800000 { // 2^-112: the inverse of the scale is finite
			continue
		}
		amax := math.Float32frombits(top)
		inv := actTop / amax
		blk.d = amax / actTop
		for i, f := range v {
			q := int32(math.RoundToEven(float64(f * inv)))
			blk.q.set(i, q)
			blk.neg -= q
			blk.off[i/16] -= 32 * q
		}
		blk.s = blk.d * float32(-blk.neg)
	}
}
