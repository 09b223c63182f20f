package quant

import (
	"encoding/binary"
	"math"

	"godwit/engine/dtype"
)

// A block of a plain type is one little-endian value. GGUF files use the integers
// for index tensors. F64, I32 and I64 are rounded to float32.

func decodeF32(dst []float32, src []byte) {
	for ; len(dst) >= 8; dst, src = dst[8:], src[32:] {
		b, y := (*[32]byte)(src), (*[8]float32)(dst)
		for i := range y {
			y[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func encodeF32(dst []byte, src, _ []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(x))
	}
}

func decodeF16(dst []float32, src []byte) {
	for ; len(dst) >= 8; dst, src = dst[8:], src[16:] {
		b, y := (*[16]byte)(src), (*[8]float32)(dst)
		for i := range y {
			y[i] = dtype.F16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
	for i := range dst {
		dst[i] = dtype.F16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func encodeF16(dst []byte, src, _ []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], dtype.F32ToF16(x))
	}
}

func decodeBF16(dst []float32, src []byte) {
	for ; len(dst) >= 8; dst, src = dst[8:], src[16:] {
		b, y := (*[16]byte)(src), (*[8]float32)(dst)
		for i := range y {
			y[i] = dtype.BF16ToF32(binary.LittleEndian.Uint16(b[2*i:]))
		}
	}
	for i := range dst {
		dst[i] = dtype.BF16ToF32(binary.LittleEndian.Uint16(src[2*i:]))
	}
}

func encodeBF16(dst []byte, src, _ []float32) {
	for i, x := range src {
		binary.LittleEndian.PutUint16(dst[2*i:], dtype.F32ToBF16(x))
	}
}

func decodeF64(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(src[8*i:])))
	}
}

func decodeI8(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int8(src[i]))
	}
}

func decodeI16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int16(binary.LittleEndian.Uint16(src[2*i:])))
	}
}

func decodeI32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int32(binary.LittleEndian.Uint32(src[4*i:])))
	}
}

func decodeI64(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = float32(int64(binary.LittleEndian.Uint64(src[8*i:])))
	}
}
