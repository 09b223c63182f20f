// Package attn holds cache pages in memory and computes attention over them,
// one page of one KV head at a time. It is written for the forms of kv.Type,
// never for their names.
//
// A page is arranged so that 16 tokens, or 16 values of the head, lie side by
// side (see the comments of floats and codes); a type that fits neither keeps
// its rows as they are and goes through its own codec. Rows enter and leave
// in the format's own bytes whatever the arrangement.
//
// The caller splits the work over heads, rows and stretches of the context;
// nothing here starts goroutines or allocates after New. Writers of one page
// must not run at the same time: cells share bytes.
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
	cells   int // of a page

	segments []kv.Segment
	parts    []part
}

// part is a stretch of the head in one simple form.
type part interface {
	// write encodes the part's values of a head into a cell and counts what was
	// saturated, as kv.Type.Encode does.
	write(page Page, cell int, x []float32, at kv.At, s *Scratch) (saturated int)
	// own asks for what write changes.
	own(page Page, cell int)
	// put and get move a cell between the page and a head's row.
	// put says whether the cell is odd.
	put(page Page, cell int, row []byte) (odd bool)
	get(row []byte, page Page, cell int)
	// room makes the memory of n queries; prepare fills that of query i from
	// the rotated query and its second vector.
	room(n int) prepared
	prepare(p *prepared, i int, q, res []float32)
	// scores adds the dot products of n queries with the cells of pages.
	scores(dst []float32, p *prepared, n int, visits []Visit, s *Scratch)
	// accumulate adds the cells of pages to n accumulators, a row of Padded
	// values each.
	accumulate(acc []float32, ld int, w []float32, n int, visits []Visit, s *Scratch)
	// first is the part, or less of it, without the values of the head from dim
	// on; nil if there are none.
	first(dim int) part
	// reads is the number of bytes of a page that attention reads, rests that of
	// the others.
	reads() int
	rests() int
	// scratch is the number of bytes that a decoded tile takes.
	scratch() int
}

// Options choose how a form is arranged and computed.
type Options struct {
	Side  kv.Side
	Float bool // float arithmetic for packed types too
	Few   int  // a page has only so many cells, kept as rows; 0: Cells
}

// New returns the form of a type for heads of headDim values.
func New(t *kv.Type, headDim int, o Options) *Form {
	f := &Form{Type: t, HeadDim: headDim, Padded: t.Padded(headDim), Options: o, row: t.RowBytes(headDim)}
	f.segments = t.Segments(headDim)
	if f.cells = Cells; o.Few > 0 {
		f.cells = o.Few
	}
	var at places
	for _, g := range f.segments {
		var p part
		switch {
		case o.Few > 0 && g.Form.Float:
			p = newFew(g, at, o.Few)
		case o.Few > 0:
			p = newRows(g, at, o.Few)
		case g.Form.Float:
			p = newFloats(g, at, o)
		case arrangeable(g.Form):
			p = newCodes(g, at, o, len(f.segments) == 1)
		default:
			p = newRows(g, at, Cells)
		}
		f.parts = append(f.parts, p)
		at.read, at.rest = at.read+p.reads(), at.rest+p.rests()
	}
	f.read = at.read
	return f
}

// Page is one head of a page: what attention reads of it, and the rest, which may
// lie elsewhere.
type Page struct{ Read, Rest []byte }

// places is where a part begins in the two.
type places struct{ read, rest int }

// Page divides PageBytes bytes that lie side by side.
func (f *Form) Page(b []byte) Page {
	n := f.ReadBytes()
	return Page{b[:n:n], b[n:]}
}

// RowBytes is the size of one head of one cell in the format's own bytes.
func (f *Form) RowBytes() int { return f.row }

// PageBytes is the size of one head of one page.
func (f *Form) PageBytes() int { return f.cells * f.row }

// Cells is the number of cells of a page.
func (f *Form) Cells() int { return f.cells }

// ReadBytes is what attention reads of one head of a page.
func (f *Form) ReadBytes() int { return f.read }

// Ahead is how many pages before it is used a page should be asked for: so
// many that they take memory about as long to bring as to compute.
func (f *Form) Ahead() int { return min(4, 1+aheadBytes/f.read) }

const aheadBytes = 10 << 10

// Write encodes one head into a cell. It returns the number of blocks whose
// scale was infinite or NaN, as kv.Type.Encode does.
func (f *Form) Write(page Page, cell int, x []float32, at kv.At, s *Scratch) (saturated int) {
	for i, p := range f.parts {
		g := &f.segments[i]
		saturated += p.write(page, cell, x[g.First:g.First+g.Dim], at, s)
	}
	return saturated
}

// Own asks the memory system for what Write changes of a page.
func (f *Form) Own(page Page, cell int) {
	for _, p := range f.parts {
		p.own(page, cell)
	}
}

// Pack encodes all cells of a page from their exact form, which is behind the
// same rotation. The form is one that is packed by page. level, where it is not
// nil, is what the packed form has ahead of its rotation and the exact one has
// not. The result is that of Write, over all cells.
func (f *Form) Pack(page Page, exact *Form, from Page, level *kv.Channels, s *Scratch) (saturated int) {
	for c := 0; c < f.cells; c += abreast {
		exact.rotated(s.head, f.Padded, from.Read, c)
		for i := 0; level != nil && i < abreast; i++ {
			f.relevel(s.head[i*f.Padded:], exact, from, c+i, level, s)
		}
		for i, p := range f.parts {
			g := &f.segments[i]
			for b := range g.Blocks {
				saturated += p.(*codes).packTrellis(page.Read, c, abreast, b, s.head[g.Lane+b*g.Form.Elems:], f.Padded, s.paths)
			}
		}
	}
	return saturated
}

// rotated reads four cells of a form whose codes are bytes in the rotated domain.
func (f *Form) rotated(dst []float32, ld int, page []byte, cell int) {
	for i, p := range f.parts {
		p.(*codes).rotated(dst[f.segments[i].Lane:], ld, page, cell)
	}
}

// relevel turns a cell back, levels it and rotates it as f does.
func (f *Form) relevel(dst []float32, exact *Form, page Page, cell int, level *kv.Channels, s *Scratch) {
	row, v := s.row[:exact.row], s.value[:f.HeadDim]
	exact.Get(row, page, cell)
	exact.Type.Decode(v, row, kv.At{})
	level.Level(v, v)
	for i := range f.segments {
		g := &f.segments[i]
		t := g.Form
		x := dst[g.Lane:][:g.Blocks*t.Elems]
		clear(x[copy(x, v[g.First:g.First+g.Dim]):])
		for ; len(x) > 0; x = x[t.Elems:] {
			forward(&t.Rotation, x[:t.Elems], t.Rotation.Forward)
		}
	}
}

// Put stores a cell that comes in the format's own bytes. odd says that it is one
// for which Visit.Rest has to be set.
func (f *Form) Put(page Page, cell int, row []byte) (odd bool) {
	for _, p := range f.parts {
		odd = p.put(page, cell, row) || odd
	}
	return odd
}

// Get is the inverse of Put.
func (f *Form) Get(row []byte, page Page, cell int) {
	for _, p := range f.parts {
		p.get(row, page, cell)
	}
}

// Copy copies a cell from one page to another; odd is as Put has it.
func (f *Form) Copy(dst Page, cell int, src Page, from int, s *Scratch) (odd bool) {
	row := s.row[:f.row]
	f.Get(row, src, from)
	return f.Put(dst, cell, row)
}

// Twins reports whether attention reads but one half of the rotated values, the
// other being its image, where a page has no odd cells.
func (f *Form) Twins() bool {
	p, ok := f.parts[0].(*codes)
	return ok && p.twin != nil
}

// Visit is a page that attention reads, and where its scores stand.
type Visit struct {
	Page  []byte // what attention reads of it
	Ahead int    // what memory is asked for meanwhile lies so many bytes behind Page (see Distance); 0: nothing
	At    int    // the page's [queries][Cells] scores, and weights later, begin there
	Cells int    // that are filled: the first ones
	Used  uint64 // a bit for each cell that has a weight
	Rest  []byte // the rest of the page if a cell may be odd, see Form.Put
}

// Scores writes the dot products of every query with the cells of pages, whose
// scores lie one after another; what it writes for cells that are not filled has
// no meaning.
func (f *Form) Scores(dst []float32, q *Queries, visits []Visit, s *Scratch) {
	v := dst[visits[0].At:][:len(visits)*q.N*Cells]
	if f.cells == Cells {
		clear(v)
	} else {
		for ; len(v) > 0; v = v[Cells:] {
			clear(v[:f.cells])
		}
	}
	for i, p := range f.parts {
		p.scores(dst, &q.parts[i], q.N, visits, s)
	}
}

// Accumulate adds the weighted cells of pages to the accumulators: acc is
// [n][Padded]. Cells that are not used must have weight 0; pages without any
// that is used are not read.
func (f *Form) Accumulate(acc, w []float32, n int, visits []Visit, s *Scratch) {
	for _, p := range f.parts {
		p.accumulate(acc, f.Padded, w, n, visits, s)
	}
}

// View is the form of V where V is the first dim values of K's rows.
func (f *Form) View(dim int) *Form {
	v := *f
	v.parts, v.read = nil, 0
	for _, p := range f.parts {
		if p = p.first(dim); p != nil {
			v.parts = append(v.parts, p)
			v.read += p.reads()
		}
	}
	return &v
}

// Finish turns a finished accumulator back; acc is overwritten.
func (f *Form) Finish(dst, acc []float32) {
	if f.Twins() {
		f.parts[0].(*codes).twin.mirror(acc)
	}
	for i := range f.segments {
		g := &f.segments[i]
		unrotate(g, dst, acc[g.Lane:g.Lane+g.Blocks*g.Form.Elems])
	}
}

// Scratch is the memory of one worker.
type Scratch struct {
	// Then is asked for while a page of float keys is scored, after as many
	// values as the page has cells; nil: what Ahead says goes on.
	Then []byte

	Odd           bool   // the cell that was written last is odd, see Form.Put
	row           []byte // a head of one cell
	codes         []byte // a page of codes, a byte each
	turn          []byte // a chunk of them, turned
	tile          []byte // [64][64] float32
	sums          [panel * Cells]float32
	first, second [panel * 64]float32 // sums of an odd page's halves
	value         []float32           // a row, or a group that is rotated together
	head          []float32           // the values of the heads of cells that lie abreast
	code8         []byte              // its codes
	w8            weights8
	paths         *paths // of the trellis encoder; nil without trellis codes
}

// NewScratch makes a worker's memory for some forms.
func NewScratch(forms ...*Form) *Scratch {
	s := &Scratch{turn: aligned(64 * 64), tile: aligned(4 * 64 * 64)}
	var row, codes, padded int
	for _, f := range forms {
		if f == nil {
			continue
		}
		row, padded = max(row, f.row), max(padded, f.Padded)
		for _, p := range f.parts {
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
