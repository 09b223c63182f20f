package kernel

import (
	"bytes"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// Every row decoded from the panels has the bits that the codec gives.
func TestPackRow(t *testing.T) {
	for _, typ := range append([]dtype.Type{dtype.F32, dtype.F16, dtype.BF16}, quantized...) {
		r := rnd(3)
		const rows, cols = 35, 512
		src := randomRows(r, typ, rows, cols)
		w := pack(t, typ, rows, cols, src)
		raw := &Raw{Type: typ, Rows: rows, Cols: cols, Data: src}
		got, want := make([]float32, cols), make([]float32, cols)
		for i := range rows {
			w.Row(got, i)
			raw.Row(want, i)
			sameBits(t, typ, got, want)
		}
		if n := panelBytes(typ, cols); !bytes.Equal(raw.scratchPanel(t, 2), w.Data[2*n:]) {
			t.Errorf("%v: a panel made in scratch memory differs", typ)
		}
	}
}

func (w *Raw) scratchPanel(t *testing.T, p int) []byte {
	t.Helper()
	s := NewScratch(w.Cols)
	for i := range s.panel {
		s.panel[i] = 0xa5
	}
	return w.Panel(s, p).Data
}

// Types without a panel form become F32 panels.
func TestRawDecoded(t *testing.T) {
	for _, typ := range quant.Types() {
		if _, ok := PackedSize(typ, 1, 256); ok || typ.Elems() < 32 {
			continue
		}
		const rows, cols = 19, 256
		r := rnd(4)
		raw := &Raw{Type: typ, Rows: rows, Cols: cols, Data: randomRows(r, typ, rows, cols)}
		x := gauss(r, 3*cols)
		y := make([]float32, 3*rows)
		MatMulRaw(y, rows, raw, nil, x, cols, 0, 3, 0, raw.Panels(), NewScratch(cols))
		row, plain := make([]float32, cols), make([]byte, rows*cols*4)
		for i := range rows {
			raw.Row(row, i)
			for c, v := range row {
				putF32(plain, i*cols+c, v)
			}
		}
		w := pack(t, dtype.F32, rows, cols, plain)
		want := make([]float32, 3*rows)
		MatMulF32(want, rows, w, x, cols, 0, 3, 0, w.Panels())
		sameBits(t, typ, y, want)
	}
}

func BenchmarkPack(b *testing.B) {
	for _, typ := range quantized {
		b.Run(typ.String(), func(b *testing.B) {
			const rows, cols = 576, 1536
			src := randomRows(rnd(1), typ, rows, cols)
			n, _ := PackedSize(typ, rows, cols)
			dst := make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				Pack(dst, typ, rows, cols, src, 0, rows/PanelRows)
			}
		})
	}
}
