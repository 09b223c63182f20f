package kernel

import (
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// TestPackFinite packs random bytes, in which many scales are NaN or infinite,
// and matrices with one damaged block. Pack must agree with quant.NotFinite.
func TestPackFinite(t *testing.T) {
	for _, typ := range append(Types(), dtype.F32, dtype.F16, dtype.BF16) {
		r := rnd(9)
		for _, rows := range []int{16, 5, 33} {
			cols := 256
			if rows == 33 && typ.Elems() == 1 {
				cols = 7 // not a whole number of words
			}
			n, _ := PackedSize(typ, rows, cols)
			dst := make([]byte, n)
			src := randomRows(r, typ, rows, cols)
			panels := (rows + PanelRows - 1) / PanelRows
			if sound := quant.NotFinite(typ, src) < 0; Pack(dst, typ, rows, cols, src, 0, panels) != sound {
				t.Errorf("%v, %d rows: finite %v, want %v", typ, rows, !sound, sound)
			}
			size := typ.Bytes()
			junk := make([]byte, size)
			for try := range 3000 {
				for i := range junk {
					junk[i] = byte(r.Uint32())
				}
				if try%100 == 0 {
					for i := range junk {
						junk[i] = 0xff
					}
				}
				clear(src)
				at := r.IntN(len(src)/size) * size
				copy(src[at:], junk)
				if sound := quant.NotFinite(typ, src) < 0; Pack(dst, typ, rows, cols, src, 0, panels) != sound {
					t.Fatalf("%v, %d rows, block % x at %d: finite %v, want %v", typ, rows, junk, at, !sound, sound)
				}
				if got := Pack(dst, typ, rows, cols, src, 0, panels); typ.Elems() == 1 && got {
					w := &Packed{Type: typ, Rows: rows, Cols: cols, Data: dst}
					x, y := make([]float32, cols), make([]float32, cols)
					row := at / size / cols
					w.Row(x, row)
					if err := quant.Decode(typ, y, src[row*cols*size:(row+1)*cols*size]); err != nil {
						t.Fatal(err)
					}
					sameBits(t, typ, x, y)
				}
			}
		}
	}
}
