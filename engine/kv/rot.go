package kv

import "math"

// These are the stock formats after an orthonormal Walsh-Hadamard transform
// without signs, as in upstream llama.cpp. K is transformed in blocks of the
// largest power of two that divides the head size, and V in blocks of 64, or of
// 32 if 64 does not divide it. Source: spec kv-formats.md section 10.
var (
	Q8_0Rot  = rotated(Q8_0, "q8_0 after a rotation", Safe)
	Q5_1Rot  = rotated(Q5_1, "q5_1 after a rotation", Experimental)
	Q5_0Rot  = rotated(Q5_0, "q5_0 after a rotation", Balanced)
	Q4_1Rot  = rotated(Q4_1, "q4_1 after a rotation", Experimental)
	Q4_0Rot  = rotated(Q4_0, "q4_0 after a rotation", Balanced)
	IQ4NLRot = rotated(IQ4NL, "iq4_nl after a rotation", Experimental)
)

func init() { register(Q8_0Rot, Q5_1Rot, Q5_0Rot, Q4_1Rot, Q4_0Rot, IQ4NLRot) }

// rotated returns t after a rotation, with one variant per size.
func rotated(t *Type, note, group string) *Type {
	base := *t
	base.Name, base.Note, base.Group = t.Name+"-rot", note, group
	base.Aliases = nil
	for size := base.Elems; size <= maxRotation; size *= 2 {
		form := base
		c := float32(1 / math.Sqrt(float64(size)))
		form.Rotation = Rotation{Size: size, Forward: c, Inverse: c, Query: c}
		form.Variants = nil
		base.Variants = append(base.Variants, Variant{Rotation: size, Form: &form})
	}
	return &base
}

// rotationFor returns the transform size for a head on one side.
func rotationFor(headDim int, s Side) int {
	if s == V {
		if headDim%64 == 0 {
			return 64
		}
		return 32
	}
	return min(headDim&-headDim, maxRotation)
}
