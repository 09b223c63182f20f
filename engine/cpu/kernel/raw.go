package kernel

import (
	"fmt"

	"godwit/engine/dtype"
	"godwit/engine/quant"
)

// Raw is a matrix in the file's own format. Its panels are made in scratch
// memory at each use. That is slower, but copies no weights. Any type with a
// decoder works. Types without a panel form become F32 panels and multiply
// float activations.
type Raw struct {
	Type       dtype.Type
	Rows, Cols int
	Data       []byte
}

// Scratch is the memory of one worker for panels of [Raw] matrices.
type Scratch struct {
	panel []byte
	row   []float32
}

// NewScratch allocates room for matrices of up to cols columns.
func NewScratch(cols int) *Scratch {
	return &Scratch{panel: make([]byte, panelBytes(dtype.F32, cols)), row: make([]float32, cols)}
}

// Panels returns the number of panels. The last one may have unused rows.
func (w *Raw) Panels() int { return (w.Rows + PanelRows - 1) / PanelRows }

// Panel packs panel p into s, as a matrix of at most 16 rows. It has w's type, or F32 if the type
// has no panel form. The result is valid until s is used again.
func (w *Raw) Panel(s *Scratch, p int) Packed {
	stride := w.Type.RowBytes(w.Cols)
	n := min(PanelRows, w.Rows-p*PanelRows)
	src := w.Data[p*PanelRows*stride:][:n*stride]
	if _, ok := PackedSize(w.Type, n, w.Cols); ok {
		dst := s.panel[:panelBytes(w.Type, w.Cols)]
		packPanel(dst, w.Type, src, stride, n)
		return Packed{Type: w.Type, Rows: n, Cols: w.Cols, Data: dst}
	}
	dst, row := s.panel[:panelBytes(dtype.F32, w.Cols)], s.row[:w.Cols]
	if n < PanelRows {
		clear(dst)
	}
	for r := range n {
		if err := quant.Decode(w.Type, row, src[r*stride:(r+1)*stride]); err != nil {
			panic(fmt.Sprintf("kernel: panel %d of %v: %v", p, w.Type, err))
		}
		for i, v := range row {
			putF32(dst, PanelRows*i+r, v)
		}
	}
	return Packed{Type: dtype.F32, Rows: n, Cols: w.Cols, Data: dst}
}

// MatMulRaw is like [MatMul] for a matrix in the file's format, or like [MatMulF32]
// if its type is not [Quantized]. It reads a or x accordingly. The results have the
// same bits as with the packed matrix.
func MatMulRaw(y []float32, ldy int, w *Raw, a *Acts, x []float32, ldx, row0, row1, panel0, panel1 int, s *Scratch) {
	for p := panel0; p < panel1; p++ {
		one := w.Panel(s, p)
		if Quantized(w.Type) {
			MatMul(y[p*PanelRows:], ldy, &one, a, row0, row1, 0, 1)
		} else {
			MatMulF32(y[p*PanelRows:], ldy, &one, x, ldx, row0, row1, 0, 1)
		}
	}
}

// Row decodes row r.
func (w *Raw) Row(dst []float32, r int) {
	n := w.Type.RowBytes(w.Cols)
	if err := quant.Decode(w.Type, dst, w.Data[r*n:(r+1)*n]); err != nil {
		panic(fmt.Sprintf("kernel: row %d of %v: %v", r, w.Type, err))
	}
}
