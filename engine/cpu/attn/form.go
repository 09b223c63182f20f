// Package attn holds cache pages in memory and computes attention over them,
// one page of one KV head at a time. It depends on the form of a kv.Type, never on
// its name.
//
// A page is arranged so that 16 tokens, or 16 values of the head, are
// contiguous (see floats and codes). A type that fits neither keeps its rows as
// they are and goes through its own codec. Rows are read and written as encoded
// bytes of the format, whatever the arrangement.
//
// The caller splits the work over heads, rows and ranges of the context.
// Nothing here starts goroutines or allocates after New. Writers of one page
// must not run concurrently, because cells share bytes.
//
// The glossary in package kv defines the terms used here.
package attn

import (
	"godwit/engine/kv"
)

// Cells is the number of cells of a page.
const Cells = kv.PageCells

// Form is one side of a layer's cache: a type at a head size.
type Form struct {
	Type    *kv.Type
	HeadDim int
	Padded  int // values of a head in the rotated domain
	Options Options
	row     int // bytes of a head of one cell
	read    int // bytes of a page that attention reads
	cells   int // cells per page

	shapes   []kv.Segment
	segments []segment
}

// segment is a range of the head in one simple form.
type segment interface {
	// write encodes the segment's values of a head into a cell and returns the
	// number of saturated blocks, as kv.Type.Encode does.
	write(page Page, cell int, x []float32, at kv.At, s *Scratch) (saturated int)
	// prefetchForWrite prefetches for writing the lines that write changes.
	prefetchForWrite(page Page, cell int)
	// put and get move a cell between the page and a head's row. put reports
	// whether the cell is asymmetric.
	put(page Page, cell int, row []byte) (asymmetric bool)
	get(row []byte, page Page, cell int)
	// room allocates the memory of n queries. prepare fills in query i from the
	// rotated query and its second vector.
	room(n int) prepared
	prepare(p *prepared, i int, q, res []float32)
	// scores adds the dot products of n queries with the cells of pages.
	scores(dst []float32, p *prepared, n int, visits []Visit, s *Scratch)
	// accumulate adds the cells of pages to n accumulators, a row of Padded
	// values each.
	accumulate(acc []float32, ld int, w []float32, n int, visits []Visit, s *Scratch)
	// first returns the part of the segment within the first dim values of the
	// head, or nil if it has no such part.
	first(dim int) segment
	// reads returns the number of bytes of a page that attention reads, and
	// rests the number of the other bytes.
	reads() int
	rests() int
	// scratch returns the size of a decoded tile in bytes.
	scratch() int
}

// Options choose how a form is arranged and computed.
type Options struct {
	Side  kv.Side
	Float bool // float arithmetic for packed types too
	Few   int  // number of cells per page, kept as rows; 0 for Cells
}

// New returns the form of a type for heads of headDim values.
func New(t *kv.Type, headDim int, o Options) *Form {
	f := &Form{Type: t, HeadDim: headDim, Padded: t.Padded(headDim), Options: o, row: t.RowBytes(headDim)}
	f.shapes = t.Segments(headDim)
	if f.cells = Cells; o.Few > 0 {
		f.cells = o.Few
	}
	var at places
	for _, g := range f.shapes {
		var p segment
		switch {
		case o.Few > 0 && g.Form.Float:
			p = newFew(g, at, o.Few)
		case o.Few > 0:
			p = newRows(g, at, o.Few)
		case g.Form.Float:
			p = newFloats(g, at, o)
		case arrangeable(g.Form):
			p = newCodes(g, at, o, len(f.shapes) == 1)
		default:
			p = newRows(g, at, Cells)
		}
		f.segments = append(f.segments, p)
		at.read, at.rest = at.read+p.reads(), at.rest+p.rests()
	}
	f.read = at.read
	return f
}

// Page is one head of a page: the bytes that attention reads, and the rest,
// which may lie elsewhere.
type Page struct{ Read, Rest []byte }

// places holds the offsets of a segment in Read and Rest.
type places struct{ read, rest int }

// Page divides PageBytes contiguous bytes into the two parts.
func (f *Form) Page(b []byte) Page {
	n := f.ReadBytes()
	return Page{b[:n:n], b[n:]}
}

// RowBytes returns the encoded size of one head of one cell.
func (f *Form) RowBytes() int { return f.row }

// PageBytes returns the size of one head of one page.
func (f *Form) PageBytes() int { return f.cells * f.row }

// Cells returns the number of cells of a page.
func (f *Form) Cells() int { return f.cells }

// ReadBytes returns the number of bytes that attention reads of one head of a
// page.
func (f *Form) ReadBytes() int { return f.read }

// Ahead returns how many pages ahead to prefetch, so that fetching takes about
// as long as computing.
func (f *Form) Ahead() int { return min(4, 1+aheadBytes/f.read) }

const aheadBytes = 10 << 10

// Write encodes one head into a cell. It returns the number of blocks with an
// infinite or NaN scale, as kv.Type.Encode does.
func (f *Form) Write(page Page, cell int, x []float32, at kv.At, s *Scratch) (saturated int) {
	for i, p := range f.segments {
		g := &f.shapes[i]
		saturated += p.write(page, cell, x[g.First:g.First+g.Dim], at, s)
	}
	return saturated
}

// PrefetchForWrite prefetches for writing the lines that Write changes in a
// page.
func (f *Form) PrefetchForWrite(page Page, cell int) {
	for _, p := range f.segments {
		p.prefetchForWrite(page, cell)
	}
}

// Pack encodes all cells of a page from their exact form, which has the same
// rotation. f must be a form that is packed by page. If channels is not nil, it
// is applied before the rotation, to the packed form only. Pack returns the
// number of blocks with an infinite or NaN scale.
func (f *Form) Pack(page Page, exact *Form, from Page, channels *kv.Channels, s *Scratch) (saturated int) {
	for c := 0; c < f.cells; c += abreast {
		exact.rotated(s.head, f.Padded, from.Read, c)
		for i := 0; channels != nil && i < abreast; i++ {
			f.renormalise(s.head[i*f.Padded:], exact, from, c+i, channels, s)
		}
		for i, p := range f.segments {
			g := &f.shapes[i]
			for b := range g.Blocks {
				saturated += p.(*codes).packTrellis(page.Read, c, abreast, b, s.head[g.Lane+b*g.Form.Elems:], f.Padded, s.paths)
			}
		}
	}
	return saturated
}

// rotated reads four cells, starting at cell, in the rotated domain. The form
// must have byte codes or 16-bit floats.
func (f *Form) rotated(dst []float32, ld int, page []byte, cell int) {
	for i, p := range f.segments {
		x := dst[f.shapes[i].Lane:]
		switch p := p.(type) {
		case *codes:
			p.rotated(x, ld, page, cell)
		case *floats:
			p.rotated(x, ld, page, cell)
		default:
			panic("attn: no page is packed from this form")
		}
	}
}

// renormalise undoes the rotation of an exact cell, normalises its values, and rotates them for f.
func (f *Form) renormalise(dst []float32, exact *Form, page Page, cell int, channels *kv.Channels, s *Scratch) {
	row, v := s.row[:exact.row], s.value[:f.HeadDim]
	exact.Get(row, page, cell)
	exact.Type.Decode(v, row, kv.At{})
	channels.Normalise(v, v)
	for i := range f.shapes {
		g := &f.shapes[i]
		t := g.Form
		x := dst[g.Lane:][:g.Blocks*t.Elems]
		clear(x[copy(x, v[g.First:g.First+g.Dim]):])
		for ; len(x) > 0; x = x[t.Elems:] {
			forward(&t.Rotation, x[:t.Elems], t.Rotation.Forward)
		}
	}
}

// Put stores a cell from its encoded bytes. asymmetric reports whether reads of this
// cell need Visit.Rest.
func (f *Form) Put(page Page, cell int, row []byte) (asymmetric bool) {
	for _, p := range f.segments {
		asymmetric = p.put(page, cell, row) || asymmetric
	}
	return asymmetric
}

// Get is the inverse of Put.
func (f *Form) Get(row []byte, page Page, cell int) {
	for _, p := range f.segments {
		p.get(row, page, cell)
	}
}

// Copy copies a cell from one page to another; asymmetric is as in Put.
func (f *Form) Copy(dst Page, cell int, src Page, from int, s *Scratch) (asymmetric bool) {
	row := s.row[:f.row]
	f.Get(row, src, from)
	return f.Put(dst, cell, row)
}

// Twins reports whether attention reads only half of the rotated values,
// because the other half is an image of it. Pages with asymmetric cells are
// read in both halves.
func (f *Form) Twins() bool {
	p, ok := f.segments[0].(*codes)
	return ok && p.twin != nil
}

// Visit is a page that attention reads, and the location of its scores.
type Visit struct {
	Page  []byte // the bytes that attention reads
	Ahead int    // distance from Page to the bytes to prefetch while it is read (see Distance); 0 for none
	At    int    // offset of the page's [queries][Cells] scores, and later weights
	Cells int    // number of filled cells
	Used  uint64 // one bit per cell with a weight
	Rest  []byte // rest of the page if a cell may be asymmetric, see Form.Put
}

// Scores writes the dot products of every query with the cells of pages, whose
// scores are contiguous. Scores of cells that are not filled are meaningless.
func (f *Form) Scores(dst []float32, q *Queries, visits []Visit, s *Scratch) {
	v := dst[visits[0].At:][:len(visits)*q.N*Cells]
	if f.cells == Cells {
		clear(v)
	} else {
		for ; len(v) > 0; v = v[Cells:] {
			clear(v[:f.cells])
		}
	}
	for i, p := range f.segments {
		p.scores(dst, &q.segments[i], q.N, visits, s)
	}
}

// Accumulate adds the weighted cells of pages to the accumulators acc,
// [n][Padded]. Unused cells must have weight 0. Pages without a used cell are
// not read.
func (f *Form) Accumulate(acc, w []float32, n int, visits []Visit, s *Scratch) {
	for _, p := range f.segments {
		p.accumulate(acc, f.Padded, w, n, visits, s)
	}
}

// View returns the form of V if V is the first dim values of K's rows.
func (f *Form) View(dim int) *Form {
	v := *f
	v.segments, v.read = nil, 0
	for _, p := range f.segments {
		if p = p.first(dim); p != nil {
			v.segments = append(v.segments, p)
			v.read += p.reads()
		}
	}
	return &v
}

// Finish inverts the rotation of a finished accumulator. It overwrites acc.
func (f *Form) Finish(dst, acc []float32) {
	if f.Twins() {
		f.segments[0].(*codes).twin.mirror(acc)
	}
	for i := range f.shapes {
		g := &f.shapes[i]
		unrotate(g, dst, acc[g.Lane:g.Lane+g.Blocks*g.Form.Elems])
	}
}

// Scratch is the memory of one worker.
type Scratch struct {
	// Then is prefetched while a page of float keys is scored, from value
	// number Cells of the head on. If it is nil, prefetching at the distance
	// Visit.Ahead continues instead.
	Then []byte

	Asymmetric    bool   // the last written cell is asymmetric, see Form.Put
	row           []byte // a head of one cell
	codes         []byte // a page of codes, one byte each
	transposed    []byte // a transposed chunk of codes
	tile          []byte // [64][64] float32
	sums          [panel * Cells]float32
	first, second [panel * 64]float32 // sums of an asymmetric page's halves
	value         []float32           // a row, or a group that is rotated together
	head          []float32           // values of the cells that are encoded side by side
	code8         []byte              // codes of a row
	w8            weights8
	paths         *paths // memory of the trellis encoder; nil without trellis codes
}

// NewScratch allocates a worker's memory for some forms.
func NewScratch(forms ...*Form) *Scratch {
	s := &Scratch{transposed: aligned(64 * 64), tile: aligned(4 * 64 * 64)}
	var row, codes, padded int
	for _, f := range forms {
		if f == nil {
			continue
		}
		row, padded = max(row, f.row), max(padded, f.Padded)
		for _, p := range f.segments {
			codes = max(codes, p.scratch())
			if c, ok := p.(interface{ trellised() bool }); ok && c.trellised() && s.paths == nil {
				s.paths = new(paths)
			}
		}
	}
	s.row, s.codes, s.code8 = make([]byte, row), aligned(codes), make([]byte, padded)
	s.value, s.head = make([]float32, padded), make([]float32, abreast*padded)
	return s
}
