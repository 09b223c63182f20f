package kv

// The turbo family of TheTom/llama-cpp-turboquant: blocks of 128 values after a
// signed orthonormal rotation, with a norm that gives the decoded block the
// length of the input. Source: spec kv-formats.md section 2.
var (
	Turbo2 = &Type{
		Name: "turbo2", Aliases: []string{"turbo2_0"}, Note: "2 bits, rotated in 128s", Group: Small,
		Rules: Rules{Boundary: true, AutoBoundary: true, Asymmetric: true, PacksRotary: true},
		Elems: 128, Bytes: 34,
		Codes:    Codes{Bits: 2, Packing: Stream, At: 2, Levels: turboLevels2, Boundaries: turboBounds2},
		Scale:    Scale{Rule: CorrectedNorm, Floor: 1e-10},
		Rotation: turboRotation,
		Heads:    Heads{Pad: true},
	}
	Turbo3 = &Type{
		Name: "turbo3", Aliases: []string{"turbo3_0"}, Note: "3 bits, rotated in 128s", Group: Small, Rules: turboRules,
		Elems: 128, Bytes: 50,
		Codes:    Codes{Bits: 3, Packing: Planes, At: 2, High: 34, Levels: turboLevels3, Boundaries: turboBounds3},
		Scale:    Scale{Rule: CorrectedNorm, Floor: 1e-10},
		Rotation: turboRotation,
		Heads:    Heads{Pad: true},
	}
	Turbo4 = &Type{
		Name: "turbo4", Aliases: []string{"turbo4_0"}, Note: "4 bits, rotated in 128s", Group: Balanced, Rules: turboRules,
		Elems: 128, Bytes: 68,
		Codes:    Codes{Bits: 4, Packing: Stream, At: 4, Levels: turboLevels4, Boundaries: turboBounds4},
		Scale:    Scale{Rule: CorrectedNorm, Floor: 1e-10, ZeroNaN: true},
		Rotation: turboRotation,
		Heads:    Heads{Pad: true},
	}
	Turbo2B32 = &Type{
		Name: "turbo2-b32", Note: "turbo2 in the 32-value blocks of older files", Rules: turboRules,
		Elems: 32, Bytes: 10,
		Codes:    Codes{Bits: 2, Packing: Stream, At: 2, Levels: turboLevels2, Boundaries: turboBounds2},
		Scale:    Scale{Rule: CorrectedNorm, Floor: 1e-10},
		Rotation: turboRotation,
		Heads:    Heads{Pad: true},
		Retired:  "an older layout that only kv encode and kv decode know; use turbo2",
	}
	Turbo3B32 = &Type{
		Name: "turbo3-b32", Note: "turbo3 in the 32-value blocks of older files", Rules: turboRules,
		Elems: 32, Bytes: 14,
		Codes:    Codes{Bits: 3, Packing: Planes, At: 2, High: 10, Levels: turboLevels3, Boundaries: turboBounds3},
		Scale:    Scale{Rule: CorrectedNorm, Floor: 1e-10},
		Rotation: turboRotation,
		Heads:    Heads{Pad: true},
		Retired:  "an older layout that only kv encode and kv decode know; use turbo3",
	}
)

func init() { register(Turbo4, Turbo3, Turbo2, Turbo3B32, Turbo2B32) }

var turboRules = Rules{Boundary: true, Asymmetric: true, PacksRotary: true}

var turboRotation = Rotation{
	Size: 128,
	Pre:  signs("59036ae44959f842bb3bc6a4a950f249"),
	Post: signs("90eeac16dc8f623f7a35a5b76265a5be"),

	Forward: 0.08838834764831845, Inverse: 0.08838834764831845, Query: 0.08838834764831845,
}

var (
	turboLevels2 = []float32{-0.133462, -0.039994, 0.039994, 0.133462}
	turboBounds2 = []float32{-0.086728, 0, 0.086728}
	turboLevels3 = []float32{
		-0.190685, -0.117832, -0.065717, -0.021460, 0.021460, 0.065717, 0.117832, 0.190685,
	}
	turboBounds3 = []float32{-0.154259, -0.091775, -0.043589, 0, 0.043589, 0.091775, 0.154259}
	turboLevels4 = []float32{
		-0.173926, -0.117195, -0.089527, -0.068756, -0.051262, -0.035597, -0.020989, -0.006938,
		0.006938, 0.020989, 0.035597, 0.051262, 0.068756, 0.089527, 0.117195, 0.173926,
	}
	turboBounds4 = []float32{
		-0.145560, -0.103361, -0.079142, -0.060009, -0.043430, -0.028293, -0.013963, 0,
		0.013963, 0.028293, 0.043430, 0.060009, 0.079142, 0.103361, 0.145560,
	}
)
