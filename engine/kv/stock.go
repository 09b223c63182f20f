package kv

import "godwit/engine/dtype"

// The stock formats of llama.cpp.
// Source: spec kv-formats.md section 10.
var (
	F32 = &Type{
		Name: "f32", Note: "exact", Group: Safe,
		Elems: 1, Bytes: 4, Float: true, Stored: dtype.F32, Rules: Rules{Wide: true},
	}
	F16 = &Type{
		Name: "f16", Note: "the default", Group: Safe,
		Elems: 1, Bytes: 2, Float: true, Stored: dtype.F16, Rules: Rules{Wide: true},
	}
	BF16 = &Type{
		Name: "bf16", Note: "f16's size, f32's range", Group: Safe,
		Elems: 1, Bytes: 2, Float: true, Stored: dtype.BF16,
	}
	Q8_0 = &Type{
		Name: "q8_0", Note: "8 bits and a scale for 32 values", Group: Safe,
		Elems: 32, Bytes: 34,
		Codes: Codes{Bits: 8, Packing: Int8, At: 2},
		Scale: Scale{Rule: StockAmax},
		Heads: Heads{Else: "f16"},
	}
	Q5_1 = &Type{
		Name: "q5_1", Note: "5 bits, scale and minimum for 32 values", Group: Experimental,
		Elems: 32, Bytes: 24,
		Codes: Codes{Bits: 5, Packing: Halves, High: 4, At: 8, Levels: steps(0, 32)},
		Scale: Scale{Rule: StockMinStep, Affine: true, Min: 2},
		Heads: Heads{Else: "f16"},
	}
	Q5_0 = &Type{
		Name: "q5_0", Note: "5 bits and a scale for 32 values", Group: Balanced,
		Elems: 32, Bytes: 22,
		Codes: Codes{Bits: 5, Packing: Halves, High: 2, At: 6, Levels: steps(-16, 32)},
		Scale: Scale{Rule: StockSigned},
		Heads: Heads{Else: "f16"},
	}
	Q4_1 = &Type{
		Name: "q4_1", Note: "4 bits, scale and minimum for 32 values", Group: Experimental,
		Elems: 32, Bytes: 20,
		Codes: Codes{Bits: 4, Packing: Halves, At: 4, Levels: steps(0, 16)},
		Scale: Scale{Rule: StockMinStep, Affine: true, Min: 2},
		Heads: Heads{Else: "f16"},
	}
	Q4_0 = &Type{
		Name: "q4_0", Note: "4 bits and a scale for 32 values", Group: Experimental,
		Elems: 32, Bytes: 18,
		Codes: Codes{Bits: 4, Packing: Halves, At: 2, Levels: steps(-8, 16)},
		Scale: Scale{Rule: StockSigned},
		Heads: Heads{Else: "f16"},
	}
	IQ4NL = &Type{
		Name: "iq4_nl", Note: "4 bits on uneven levels, a scale for 32 values", Group: Experimental,
		Elems: 32, Bytes: 18,
		Codes: Codes{
			Bits: 4, Packing: Halves, At: 2,
			Levels: []float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
		},
		Scale: Scale{Rule: StockFitted, Floor: 1e-15},
		Heads: Heads{Else: "f16"},
	}
)

func init() { register(F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0, IQ4NL) }

// steps returns n consecutive levels from first.
func steps(first, n int) []float32 {
	levels := make([]float32, n)
	for i := range levels {
		levels[i] = float32(first + i)
	}
	return levels
}
