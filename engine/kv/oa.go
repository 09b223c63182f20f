package kv

// The turbo types of openalchemy/llama.cpp: an unsigned, unnormalised transform
// of 128 values. The stored length is the plain length after the transform.
// Source: spec kv-formats.md section 3.
var (
	OATurbo3 = &Type{
		Name: "oa-turbo3", Aliases: []string{"turbo3-oa"}, Note: "3 bits, openalchemy's layout", Group: Experimental,
		Elems: 128, Bytes: 50,
		Codes:    Codes{Bits: 3, Packing: Stream, At: 2, Levels: oaLevels(oaUnscaled3), Boundaries: oaBounds(oaUnscaled3)},
		Scale:    Scale{Rule: RotatedNorm, Zero: 3},
		Rotation: oaRotation,
		Heads:    Heads{Else: "turbo3"},
	}
	OATurbo2 = &Type{
		Name: "oa-turbo2", Aliases: []string{"turbo2-oa"}, Note: "2 bits, openalchemy's layout", Group: Experimental,
		Elems: 128, Bytes: 34,
		Codes:    Codes{Bits: 2, Packing: Stream, At: 2, Levels: oaLevels(oaUnscaled2), Boundaries: oaBounds(oaUnscaled2)},
		Scale:    Scale{Rule: RotatedNorm, Zero: 1},
		Rotation: oaRotation,
		Heads:    Heads{Else: "turbo2"},
	}
)

func init() { register(OATurbo3, OATurbo2) }

var oaRotation = Rotation{Size: 128, Inverse: 1. / 128, Query: 1. / 128}

const oaScale float32 = 0.08838834764831845

var (
	oaUnscaled3 = []float32{-2.1519, -1.3439, -0.7560, -0.2451, 0.2451, 0.7560, 1.3439, 2.1519}
	oaUnscaled2 = []float32{-1.5104, -0.4528, 0.4528, 1.5104}
)

func oaLevels(unscaled []float32) []float32 {
	l := make([]float32, len(unscaled))
	for i, v := range unscaled {
		l[i] = v * oaScale
	}
	return l
}

// oaBounds returns the midpoints of the levels, computed from left to right in
// float32.
func oaBounds(unscaled []float32) []float32 {
	b := make([]float32, len(unscaled)-1)
	for i := range b {
		b[i] = (unscaled[i] + unscaled[i+1]) * 0.5 * oaScale
	}
	return b
}
