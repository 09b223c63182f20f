package quant_test

import (
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// MB/s counts the float32 side.
func BenchmarkDecode(b *testing.B) {
	for _, t := range quant.Types() {
		b.Run(t.String(), func(b *testing.B) {
			dst := make([]float32, 4096)
			src := tame(t, splitmix(1, t.RowBytes(len(dst))))
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				if err := quant.Decode(t, dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	src := gauss(1, 4096)
	for _, t := range quant.Types() {
		if !quant.Encodes(t) {
			continue
		}
		dst := make([]byte, t.RowBytes(len(src)))
		for _, c := range []struct {
			name       string
			importance []float32
		}{{"plain", nil}, {"weighted", ones(len(src))}} {
			b.Run(t.String()+"/"+c.name, func(b *testing.B) {
				b.SetBytes(int64(4 * len(src)))
				for b.Loop() {
					if err := quant.Encode(t, dst, src, c.importance); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// tame makes plain floats of ordinary size: a processor is slow on subnormals.
func tame(t dtype.Type, b []byte) []byte {
	if t.IsFloat() {
		for i := range b {
			b[i] = b[i]&0x8f | 0x30
		}
	}
	return b
}
