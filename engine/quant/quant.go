// Package quant decodes and encodes the weight formats of GGUF files. Each format,
// or family of formats, has its own source file.
//
//	row := make([]float32, 4096)
//	err := quant.Decode(dtype.Q4_K, row, src) // src has 2304 bytes
//
// A row is a sequence of blocks. Package dtype has the number of values and bytes of
// a block. The decoders compute the same bits as ggml, which rounds products to
// float32 before it adds them. No function allocates memory, except that the first
// use of an IQ type builds its code book.
package quant

import (
	"errors"
	"fmt"

	"godwit/engine/dtype"
)

var (
	// ErrType is returned for a type that has no codec here.
	ErrType = errors.New("unsupported weight type")
	// ErrSize is returned if dst and src are not whole blocks of the same number of
	// values.
	ErrSize = errors.New("wrong row size")
	// ErrValue is returned if a value or an importance cannot be encoded.
	ErrValue = errors.New("value cannot be encoded")
)

// codec holds the row functions of a format. dst and src must be whole blocks of the
// same number of values. encode is nil for a format that can only be decoded.
// importance is nil or as long as src.
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

// Supported reports whether Decode supports the type.
func Supported(t dtype.Type) bool {
	return uint64(t) < uint64(len(codecs)) && codecs[t].decode != nil
}

// Weights reports whether tensors of the type hold weights. Decode also supports
// integers and float64, which hold other data.
func Weights(t dtype.Type) bool {
	switch t {
	case dtype.I8, dtype.I16, dtype.I32, dtype.I64, dtype.F64:
		return false
	}
	return Supported(t)
}

// Encodes reports whether Encode supports the type.
func Encodes(t dtype.Type) bool { return Supported(t) && codecs[t].encode != nil }

// Types lists the types that Decode supports, in the order of their numbers in GGUF
// files.
func Types() []dtype.Type {
	var ts []dtype.Type
	for i := range codecs {
		if t := dtype.Type(i); Supported(t) {
			ts = append(ts, t)
		}
	}
	return ts
}

// Decode converts the len(dst) values of type t in src to float32. src must be whole
// blocks. If it returns ErrType or ErrSize, dst is unchanged. It accepts any bytes
// in src.
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

// Encode rounds the values of src to type t and writes them to dst. src must be
// whole blocks.
//
// importance is nil or holds one weight per value, normally the mean square of the
// activation that the value is multiplied by. With weights, the encoder makes the
// sum of importance·error² small. Without them, the block formats of the KV cache
// (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4) give the same bytes as ggml's
// one-pass encoders, and the K formats search with equal weights. The plain floats,
// Q8_0 and the TQ formats ignore the weights.
//
// It returns ErrType, ErrSize or ErrValue. With weights, and always in the K
// formats, values and weights must be finite, and weights must not be negative. A
// scale that exceeds float16 is stored as 65504 with its sign, and NaN as 0.
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

// searches reports whether the encoder of t searches for scales even without
// importance.
func searches(t dtype.Type) bool { return t >= dtype.Q2_K && t <= dtype.Q6_K }

func checkSize(t dtype.Type, elems, bytes int) error {
	if n := t.Elems(); elems%n != 0 {
		return fmt.Errorf("%w: %v has blocks of %d values, but the row has %d", ErrSize, t, n, elems)
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

// half converts a little-endian float16.
func half(lo, hi byte) float32 { return dtype.F16ToF32(uint16(lo) | uint16(hi)<<8) }

// putScale stores a block's scale as a finite float16.
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
