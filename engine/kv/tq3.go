package kv

// tq3_0 comes from animehacker/llama-turboquant. tq3_0-qjl comes from its
// ancestor by unixsysdev, in which the third bit is the sign of the residual.
// Both have blocks of 32 values with the scale last. Source: spec kv-formats.md
// section 4.
var (
	TQ3_0 = &Type{
		Name: "tq3_0", Aliases: []string{"tq3"}, Note: "3 bits, rotated in 32s", Group: Small,
		Elems: 32, Bytes: 14,
		Codes: Codes{
			Bits: 3, Packing: Planes, At: 0, High: 8,
			Levels:     []float32{-2.1573, -1.3336, -0.7434, -0.2428, 0.2428, 0.7434, 1.3336, 2.1573},
			Boundaries: []float32{-1.7455, -1.0385, -0.4931, 0, 0.4931, 1.0385, 1.7455},
		},
		Scale:    Scale{At: 12, Rule: OuterAmax, Outer: 2.1573},
		Rotation: tq3Rotation,
		Heads:    Heads{Else: "f16"},
	}
	TQ3_0QJL = &Type{
		Name: "tq3_0-qjl", Aliases: []string{"tq3-unixsysdev"}, Note: "2 bits and an unread sign, unixsysdev's layout", Group: Experimental,
		Elems: 32, Bytes: 14,
		Codes: Codes{
			Bits: 2, Packing: Stream, At: 0,
			Levels:     []float32{-1.51, -0.453, 0.453, 1.51},
			Boundaries: []float32{-0.9815, 0, 0.9815},
		},
		Scale:    Scale{At: 12, Rule: OuterAmax, Outer: 1.51},
		Residual: &Residual{At: noScale, Bits: 8},
		Rotation: tq3Rotation,
		Heads:    Heads{Else: "f16"},
	}
)

func init() { register(TQ3_0, TQ3_0QJL) }

var tq3Rotation = Rotation{
	Size: 32, Pre: signs("b2d4a6b1"),
	Forward: 0.17677669529663688, Inverse: 0.17677669529663688, Query: 0.17677669529663688,
}
