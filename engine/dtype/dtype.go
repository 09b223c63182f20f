// Package dtype names the element types of GGUF tensors and converts the
// 16-bit floats. Every other package may import it.
//
//	t, ok := dtype.FromGGML(12)    // Q4_K
//	n := dtype.Q4_K.RowBytes(4096) // 2304
package dtype

import "fmt"

// Type is a tensor element type, numbered as in GGUF files (ggml_type).
type Type uint32

// The types of GGUF files. Numbers that ggml has retired are absent.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
	NVFP4   Type = 40
	Q1_0    Type = 41
	Q2_0    Type = 42
	TQ3_1S  Type = 45 // TheTom's weight format
	TQ4_1S  Type = 46 // TheTom's weight format
)

type info struct {
	name         string
	elems, bytes int
}

// infos holds the properties of every type by number. A type without a name is
// unknown.
var infos = [...]info{
	F32:     {"F32", 1, 4},
	F16:     {"F16", 1, 2},
	Q4_0:    {"Q4_0", 32, 18},
	Q4_1:    {"Q4_1", 32, 20},
	Q5_0:    {"Q5_0", 32, 22},
	Q5_1:    {"Q5_1", 32, 24},
	Q8_0:    {"Q8_0", 32, 34},
	Q8_1:    {"Q8_1", 32, 36},
	Q2_K:    {"Q2_K", 256, 84},
	Q3_K:    {"Q3_K", 256, 110},
	Q4_K:    {"Q4_K", 256, 144},
	Q5_K:    {"Q5_K", 256, 176},
	Q6_K:    {"Q6_K", 256, 210},
	Q8_K:    {"Q8_K", 256, 292},
	IQ2_XXS: {"IQ2_XXS", 256, 66},
	IQ2_XS:  {"IQ2_XS", 256, 74},
	IQ3_XXS: {"IQ3_XXS", 256, 98},
	IQ1_S:   {"IQ1_S", 256, 50},
	IQ4_NL:  {"IQ4_NL", 32, 18},
	IQ3_S:   {"IQ3_S", 256, 110},
	IQ2_S:   {"IQ2_S", 256, 82},
	IQ4_XS:  {"IQ4_XS", 256, 136},
	I8:      {"I8", 1, 1},
	I16:     {"I16", 1, 2},
	I32:     {"I32", 1, 4},
	I64:     {"I64", 1, 8},
	F64:     {"F64", 1, 8},
	IQ1_M:   {"IQ1_M", 256, 56},
	BF16:    {"BF16", 1, 2},
	TQ1_0:   {"TQ1_0", 256, 54},
	TQ2_0:   {"TQ2_0", 256, 66},
	MXFP4:   {"MXFP4", 32, 17},
	NVFP4:   {"NVFP4", 64, 36},
	Q1_0:    {"Q1_0", 128, 18},
	Q2_0:    {"Q2_0", 64, 18},
	TQ3_1S:  {"TQ3_1S", 32, 16},
	TQ4_1S:  {"TQ4_1S", 32, 20},
}

// FromGGML returns the type that has the number id in GGUF files. It returns false
// if the type is unknown.
func FromGGML(id uint32) (Type, bool) {
	return Type(id), Type(id).info().name != ""
}

// Parse returns the type with a name that GGUF tools print, in upper or lower case.
func Parse(name string) (Type, bool) {
	for t, i := range infos {
		if name != "" && equalFold(i.name, name) {
			return Type(t), true
		}
	}
	return 0, false
}

func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if 'A' <= x && x <= 'Z' {
			x += 'a' - 'A'
		}
		if 'A' <= y && y <= 'Z' {
			y += 'a' - 'A'
		}
		if x != y {
			return false
		}
	}
	return true
}

// String returns the name as GGUF tools print it.
func (t Type) String() string {
	if i := t.info(); i.name != "" {
		return i.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

func (t Type) info() info {
	if int(t) < len(infos) {
		return infos[t]
	}
	return info{}
}

// Elems returns the number of values in a block, or 0 for an unknown type.
func (t Type) Elems() int { return t.info().elems }

// Bytes returns the size of a block in bytes, or 0 for an unknown type.
func (t Type) Bytes() int { return t.info().bytes }

// RowBytes returns the size of a row of n values in bytes. n must be a multiple of
// Elems, and the type must be known.
func (t Type) RowBytes(n int) int { return n / t.Elems() * t.Bytes() }

// IsFloat reports whether a value is a plain float (F32, F16, BF16 or F64).
func (t Type) IsFloat() bool { return t == F32 || t == F16 || t == BF16 || t == F64 }
