package quant_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// Every type of GGUF files decodes, except the two of activations.
func TestTypes(t *testing.T) {
	var want []dtype.Type
	for id := range uint32(1000) {
		if typ, ok := dtype.FromGGML(id); ok && typ != dtype.Q8_1 && typ != dtype.Q8_K {
			want = append(want, typ)
		}
	}
	if got := quant.Types(); !slices.Equal(got, want) {
		t.Errorf("Types() = %v, want %v", got, want)
	}
	for _, typ := range []dtype.Type{dtype.Q8_1, dtype.Q8_K, 4, 47, math.MaxUint32} {
		if quant.Supported(typ) || quant.Encodes(typ) {
			t.Errorf("%v is supported", typ)
		}
		err := quant.Decode(typ, nil, nil)
		if !errors.Is(err, quant.ErrType) || !strings.Contains(err.Error(), typ.String()) {
			t.Errorf("Decode(%v): %v", typ, err)
		}
	}
	for _, typ := range []dtype.Type{
		dtype.F32, dtype.F16, dtype.BF16, dtype.Q8_0, dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q5_1,
		dtype.Q2_K, dtype.Q3_K, dtype.Q4_K, dtype.Q5_K, dtype.Q6_K, dtype.IQ4_NL, dtype.MXFP4, dtype.TQ3_1S, dtype.TQ4_1S,
	} {
		if !quant.Encodes(typ) {
			t.Errorf("%v cannot be encoded", typ)
		}
	}
}

func TestErrors(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	row := func(n int, x float32) []float32 { return slices.Repeat([]float32{x}, n) }
	for _, c := range []struct {
		name string
		err  error
		want error
		text string
	}{
		{"odd row", quant.Decode(dtype.Q4_K, make([]float32, 255), make([]byte, 144)), quant.ErrSize, "blocks of 256 values, but the row has 255"},
		{"short bytes", quant.Decode(dtype.Q4_K, make([]float32, 256), make([]byte, 143)), quant.ErrSize, "are 144 bytes, not 143"},
		{"long bytes", quant.Decode(dtype.F32, make([]float32, 1), make([]byte, 8)), quant.ErrSize, "are 4 bytes, not 8"},
		{"read-only type", quant.Encode(dtype.IQ1_S, make([]byte, 50), row(256, 0), nil), quant.ErrType, "IQ1_S cannot be encoded"},
		{"short dst", quant.Encode(dtype.Q8_0, make([]byte, 33), row(32, 0), nil), quant.ErrSize, "are 34 bytes, not 33"},
		{"importance length", quant.Encode(dtype.Q8_0, make([]byte, 34), row(32, 0), row(31, 1)), quant.ErrSize, "31 importances for 32 values"},
		{"NaN in a search", quant.Encode(dtype.Q4_K, make([]byte, 144), row(256, nan), nil), quant.ErrValue, "Q4_K: value cannot be encoded: value 0 is NaN"},
		{"infinity in a search", quant.Encode(dtype.Q4_0, make([]byte, 18), row(32, inf), row(32, 1)), quant.ErrValue, "value 0 is +Inf"},
		{"NaN importance", quant.Encode(dtype.Q4_0, make([]byte, 18), row(32, 1), row(32, nan)), quant.ErrValue, "importance 0 is NaN"},
		{"negative importance", quant.Encode(dtype.Q6_K, make([]byte, 210), row(256, 1), row(256, -1)), quant.ErrValue, "importance 0 is -1"},
		{"empty", quant.Decode(dtype.Q6_K, nil, nil), nil, ""},
	} {
		if !errors.Is(c.err, c.want) || c.err != nil && !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.text)
		}
	}
}

// Decoders run on the token path, and so do the encoders of the KV cache. (The
// K encoders take one block of scratch a call.)
func TestNoAllocations(t *testing.T) {
	for _, typ := range quant.Types() {
		x, b := make([]float32, 512), make([]byte, typ.RowBytes(512))
		if n := testing.AllocsPerRun(10, func() { _ = quant.Decode(typ, x, b) }); n != 0 {
			t.Errorf("Decode(%v) allocates %v times", typ, n)
		}
		if !quant.Encodes(typ) || typ.Elems() == 256 {
			continue
		}
		if n := testing.AllocsPerRun(10, func() { _ = quant.Encode(typ, b, x, nil) }); n != 0 {
			t.Errorf("Encode(%v) allocates %v times", typ, n)
		}
	}
}

func TestPlainValues(t *testing.T) {
	for _, c := range []struct {
		typ  dtype.Type
		in   string
		want float32
	}{
		{dtype.I8, "\x80", -128},
		{dtype.I16, "\x00\x80", -32768},
		{dtype.I32, "\xff\xff\xff\xff", -1},
		{dtype.I64, "\x00\x00\x00\x00\x01\x00\x00\x00", 1 << 32},
		{dtype.F64, "\x00\x00\x00\x00\x00\x00\xf8\x3f", 1.5},
		{dtype.F32, "\x00\x00\xc0\x3f", 1.5},
		{dtype.F16, "\x00\x3e", 1.5},
		{dtype.BF16, "\xc0\x3f", 1.5},
	} {
		const n = 11 // more than a run of eight
		got := make([]float32, n)
		if err := quant.Decode(c.typ, got, []byte(strings.Repeat(c.in, n))); err != nil {
			t.Fatal(err)
		}
		for i, f := range got {
			if f != c.want {
				t.Errorf("%v: value %d is %g, want %g", c.typ, i, f, c.want)
			}
		}
	}
}

// The code books hold as many points as their codes can name, none twice.
func TestGrids(t *testing.T) {
	for typ, points := range map[dtype.Type]int{
		dtype.IQ1_S: 2048, dtype.IQ1_M: 2048, dtype.IQ2_XXS: 256, dtype.IQ2_XS: 512,
		dtype.IQ2_S: 1024, dtype.IQ3_XXS: 256, dtype.IQ3_S: 512,
	} {
		grid, width := quant.Grid(typ)
		if len(grid) != points*width {
			t.Errorf("%v: %d bytes, want %d points of %d", typ, len(grid), points, width)
		}
		seen := map[string]bool{}
		for p := range slices.Chunk(grid, width) {
			var key strings.Builder
			for _, v := range p {
				key.WriteByte(byte(v))
			}
			seen[key.String()] = true
		}
		if len(seen) != points {
			t.Errorf("%v: %d different points, want %d", typ, len(seen), points)
		}
	}
	if grid, width := quant.Grid(dtype.Q4_K); grid != nil || width != 0 {
		t.Error("Q4_K has a grid")
	}
}
