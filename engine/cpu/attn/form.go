// Package attn holds cache pages in memory and computes attention over them,
// one page of one KV head at a time. It is written for the forms of kv.Type,
// never for their names; what it does not know by form goes through the
// type's own codec.
//
// The caller splits the work over heads, rows and stretches of the context;
// nothing here starts goroutines or allocates after New.
package attn

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/kv"
)

// Cells is the number of cells of a page.
const Cells = kv.PageCells

// Form is one side of a layer's cache: a type at a head size.
type Form struct {
	Type    *kv.Type
	HeadDim int
	Padded  int // values of a head in the rotated domain
	row     int // bytes of a head of one cell
}

// New returns the form of a type for heads of headDim values.
func New(t *kv.Type, headDim int) *Form {
	return &Form{Type: t, HeadDim: headDim, Padded: t.Padded(headDim), row: t.RowBytes(headDim)}
}

// RowBytes is the size of one head of one cell in the format's own bytes.
func (f *Form) RowBytes() int { return f.row }

// PageBytes is the size of one head of one page.
func (f *Form) PageBytes() int { return Cells * f.row }

// Write encodes one head into a cell.
func (f *Form) Write(page []byte, cell int, x []float32, at kv.At) {
	f.Type.Encode(page[cell*f.row:(cell+1)*f.row], x, at)
}

// Get copies a cell out in the format's own bytes; Put copies one in.
func (f *Form) Get(dst, page []byte, cell int) { copy(dst, page[cell*f.row:(cell+1)*f.row]) }

// Put copies a cell in.
func (f *Form) Put(page []byte, cell int, src []byte) { copy(page[cell*f.row:(cell+1)*f.row], src) }

// Copy copies a cell from one page to another.
func (f *Form) Copy(dst []byte, cell int, src []byte, from int) {
	f.Put(dst, cell, src[from*f.row:(from+1)*f.row])
}

// Queries are the query heads that read the same KV head, prepared for a
// key form.
type Queries struct {
	N        int // queries in use
	q, res   []float32
	padded   int
	residual bool
}

// NewQueries makes room for n queries of a form.
func (f *Form) NewQueries(n int) *Queries {
	q := &Queries{padded: f.Padded, residual: f.Type.HasResidual()}
	q.q = make([]float32, n*f.Padded)
	if q.residual {
		q.res = make([]float32, n*f.Padded)
	}
	return q
}

// Set prepares query i.
func (q *Queries) Set(f *Form, i int, x []float32) {
	var res []float32
	if q.residual {
		res = q.res[i*q.padded : (i+1)*q.padded]
	}
	f.Type.RotateQuery(q.q[i*q.padded:(i+1)*q.padded], res, x)
}

// Scratch is the memory of one worker.
type Scratch struct{ row []float32 }

// NewScratch makes a worker's memory for rows of up to padded values.
func NewScratch(padded int) *Scratch { return &Scratch{make([]float32, padded)} }

// Scores writes the dot products of every query with the first n cells of a
// page: dst is [q.N][Cells].
func (f *Form) Scores(dst []float32, q *Queries, page []byte, n int, s *Scratch) {
	if q.residual {
		for c := range n {
			row := page[c*f.row : (c+1)*f.row]
			for i := range q.N {
				dst[i*Cells+c] = f.Type.Score(q.q[i*q.padded:(i+1)*q.padded], q.res[i*q.padded:(i+1)*q.padded], row)
			}
		}
		return
	}
	x := s.row[:f.Padded]
	for c := range n {
		f.Type.DecodeRotated(x, page[c*f.row:(c+1)*f.row])
		for i := range q.N {
			dst[i*Cells+c] = kernel.Dot(q.q[i*q.padded:(i+1)*q.padded], x)
		}
	}
}

// Accumulate adds weighted cells to the accumulators: acc is [n][Padded], w
// is [n][Cells], of which the first cells count. A cell whose weights are all
// zero is not read.
func (f *Form) Accumulate(acc, w []float32, n int, page []byte, cells int, s *Scratch) {
	x := s.row[:f.Padded]
	for c := range cells {
		used := false
		for i := range n {
			used = used || w[i*Cells+c] != 0
		}
		if !used {
			continue
		}
		f.Type.DecodeRotated(x, page[c*f.row:(c+1)*f.row])
		for i := range n {
			if p := w[i*Cells+c]; p != 0 {
				kernel.Axpy(acc[i*f.Padded:(i+1)*f.Padded], x, p)
			}
		}
	}
}

// Finish turns a finished accumulator back; acc is overwritten.
func (f *Form) Finish(dst, acc []float32) { f.Type.UnrotateOutput(dst, acc) }
