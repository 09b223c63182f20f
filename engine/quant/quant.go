// Package quant decodes and encodes the weight formats of GGUF files, one file
// a format.
//
//	row := make([]float32, 4096)
//	err := quant.Decode(dtype.Q4_K, row, src) // src has 2304 bytes
//
// A row is a run of blocks; dtype gives the values and bytes of a block. The
// decoders compute what ggml computes, bit for bit: products are rounded to
// float32 before they are added. Nothing here allocates, except that the code
// book of an IQ type is built at its first use.
package quant

import (
	"errors"
	"fmt"

	"godwit/engine/dtype"
)

var (
	// ErrType is returned for a type that has no codec here.
	ErrType = errors.New("unsupported weight type")
	// ErrSize is returned when dst and src are not the same whole blocks.
	ErrSize = errors.New("wrong row size")
	// ErrValue is returned when a value or an importance cannot be encoded.
	ErrValue = errors.New("value cannot be encoded")
)

// codec holds the row functions of a format. They are called with whole blocks
// whose sizes agree. encode is nil for a format that is only read; importance
// is nil or as long as src.
type codec struct {
	decode func(dst []float32, src []byte)
	encode func(dst []byte, src, importance []float32)
}

// codecs is indexed by dtype.Type.
var codecs = [...]codec{
	dtype.F32:     {decodeF32, encodeF32},
	dtype.F16:     {decodeF16, encodeF16},
	dtype.BF16:    {decodeBF16, encodeBF16},
	dtype.F64:     {decode: decodeF64},
	dtype.I8:      {decode: decodeI8},
	dtype.I16:     {decode: decodeI16},
	dtype.I32:     {decode: decodeI32},
	dtype.I64:     {decode: decodeI64},
	dtype.Q1_0:    {decode: decodeQ1_0},
	dtype.Q2_0:    {decode: decodeQ2_0},
	dtype.Q4_0:    {decodeQ4_0, encodeQ4_0},
	dtype.Q4_1:    {decodeQ4_1, encodeQ4_1},
	dtype.Q5_0:    {decodeQ5_0, encodeQ5_0},
	dtype.Q5_1:    {decodeQ5_1, encodeQ5_1},
	dtype.Q8_0:    {decodeQ8_0, encodeQ8_0},
	dtype.Q2_K:    {decodeQ2_K, encodeQ2_K},
	dtype.Q3_K:    {decodeQ3_K, encodeQ3_K},
	dtype.Q4_K:    {decodeQ4_K, encodeQ4_K},
	dtype.Q5_K:    {decodeQ5_K, encodeQ5_K},
	dtype.Q6_K:    {decodeQ6_K, encodeQ6_K},
	dtype.IQ1_S:   {decode: decodeIQ1_S},
	dtype.IQ1_M:   {decode: decodeIQ1_M},
	dtype.IQ2_XXS: {decode: decodeIQ2_XXS},
	dtype.IQ2_XS:  {decode: decodeIQ2_XS},
	dtype.IQ2_S:   {decode: decodeIQ2_S},
	dtype.IQ3_XXS: {decode: decodeIQ3_XXS},
	dtype.IQ3_S:   {decode: decodeIQ3_S},
	dtype.IQ4_NL:  {decodeIQ4_NL, encodeIQ4_NL},
	dtype.IQ4_XS:  {decode: decodeIQ4_XS},
	dtype.TQ1_0:   {decode: decodeTQ1_0},
	dtype.TQ2_0:   {decode: decodeTQ2_0},
	dtype.MXFP4:   {decodeMXFP4, encodeMXFP4},
	dtype.NVFP4:   {decode: decodeNVFP4},
	dtype.TQ3_1S:  {decodeTQ3_1S, encodeTQ3_1S},
	dtype.TQ4_1S:  {decodeTQ4_1S, encodeTQ4_1S},
}

// Supported reports whether Decode knows the type.
func Supported(t dtype.Type) bool {
	return uint64(t) < uint64(len(codecs)) && codecs[t].decode != nil
}

// Weights reports whether tensors of the type hold weights. Integers and doubles,
// which Decode knows too, are data of other kinds.
func Weights(t dtype.Type) bool {
	switch t {
	case dtype.I8, dtype.I16, dtype.I32, dtype.I64, dtype.F64:
		return false
	}
	return Supported(t)
}

// Encodes reports whether Encode knows the type.
func Encodes(t dtype.Type) bool { return Supported(t) && codecs[t].encode != nil }

// Types lists the types that Decode knows, by their number in GGUF files.
func Types() []dtype.Type {
	var ts []dtype.Type
	for i := range codecs {
		if t := dtype.Type(i); Supported(t) {
			ts = append(ts, t)
		}
	}
	return ts
}

// Decode widens whole blocks: src holds len(dst) values of type t.
// It returns ErrType or ErrSize, and then leaves dst alone; any bytes decode.
func Decode(t dtype.Type, dst []float32, src []byte) error {
	if !Supported(t) {
		return fmt.Errorf("%w: %v cannot be decoded", ErrType, t)
	}
	if err := checkSize(t, len(dst), len(src)); err != nil {
		return err
	}
	codecs[t].decode(dst, src)
	return nil
}

// Encode rounds whole blocks of src to type t; dst takes the bytes.
//
// importance is nil or holds one weight for each value, in practice the mean
// square of the activation that meets it; the encoder then makes the sum of
// importance·error² small. With nil, the block formats of the KV cache (Q8_0,
// Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4) take ggml's one-pass rule, byte for
// byte, and the K formats search with equal weights. The plain floats, Q8_0
// and the TQ formats ignore importance.
//
// It returns ErrType, ErrSize, or ErrValue: where it searches, values and
// importances must be finite and importances not negative. A scale that
// exceeds float16 is stored as 65504, and one that is not a number as 0.
func Encode(t dtype.Type, dst []byte, src, importance []float32) error {
	if !Encodes(t) {
		return fmt.Errorf("%w: %v cannot be encoded", ErrType, t)
	}
	if err := checkSize(t, len(src), len(dst)); err != nil {
		return err
	}
	if importance != nil && len(importance) != len(src) {
		return fmt.Errorf("%w: %d importances for %d values", ErrSize, len(importance), len(src))
	}
	if importance != nil || searches(t) {
		if err := checkValues(src, importance); err != nil {
			return fmt.Errorf("%v: %w", t, err)
		}
	}
	codecs[t].encode(dst, src, importance)
	return nil
}

// searches reports whether the encoder of t looks for scales in any case.
func searches(t dtype.Type) bool { return t >= dtype.Q2_K && t <= dtype.Q6_K }

func checkSize(t dtype.Type, elems, bytes int) error {
	if n := t.Elems(); elems%n != 0 {
		return fmt.Errorf("%w: %v has blocks of %d values, the row %d", ErrSize, t, n, elems)
	}
	if want := t.RowBytes(elems); bytes != want {
		return fmt.Errorf("%w: %d values of %v are %d bytes, not %d", ErrSize, elems, t, want, bytes)
	}
	return nil
}

func checkValues(src, importance []float32) error {
	for i, x := range src {
		if x-x != 0 {
			return fmt.Errorf("%w: value %d is %g", ErrValue, i, x)
		}
	}
	for i, w := range importance {
		if !(w >= 0) || w-w != 0 {
			return fmt.Errorf("%w: importance %d is %g", ErrValue, i, w)
		}
	}
	return nil
}

// half reads a little-endian binary16.
func half(lo, hi byte) float32 { return dtype.F16ToF32(uint16(lo) | uint16(hi)<<8) }

// putScale stores a block's scale as binary16, finite in any case.
func putScale(dst []byte, f float32) {
	h := dtype.F32ToF16(f)
	switch {
	case h&0x7fff > 0x7c00:
		h = 0
	case h&0x7fff == 0x7c00:
		h--
	}
	dst[0], dst[1] = byte(h), byte(h>>8)
}
