package gpu

import (
	"fmt"
	"unsafe"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
)

// image is a batch in the layout that kernels read. It is one block of 4-byte
// values, filled on the host and uploaded before a run. The offsets of its
// arrays are in bytes.
type image struct {
	data     []byte
	buffer   Buffer
	spans    int // maximum number of spans
	groups   int
	capacity int // maximum number of rows
	stride   int // pages per table
	exact    int // offset in a page table of the exact pages behind a sequence's other pages; 0 without any

	tokens  int64
	places  int64   // positions
	rows    []int64 // offset per group of {position, length, first page in tables, sequence} for each row
	ends    int64   // {first row, rows} for each span
	list    int64   // {first row, rows, starts at position 0, state slot} for each span
	outputs int64
	input   int64
	width   int // number of values per row of input
	tiles   []*tiles
	windows []layout.Window // window of each group
	tables  int64           // pages, [group][span][stride]; the exact pages of a span follow its other pages
	size    int64
}

// tiles divides the spans of a batch into tiles of at most rows rows. All rows
// of a tile read the same pages in exact form. The array holds {first row,
// rows} per tile.
type tiles struct {
	at     int64
	rows   int
	window layout.Window // range of positions that is kept exactly
	n      int           // number of tiles in this batch
}

// imageAlign aligns every array for any kernel.
const imageAlign = 64

// room reserves n values and returns their place.
func (m *image) room(n int) int64 {
	at := m.size
	m.size += (int64(4*n) + imageAlign - 1) / imageAlign * imageAlign
	return at
}

// newImage lays out the arrays for the largest batch. Drafted rows of one
// sequence are separate spans.
func newImage(p *program) *image {
	l, n := p.layout, p.capacity()
	m := &image{spans: padded(max(1, min(p.sizes.Rows, max(l.Settings.Seqs, p.sizes.Slots, maxDecode)))), width: p.plan.InputWidth()}
	m.stride = max(1, (l.Settings.Cells+kv.PageCells-1)/kv.PageCells)
	for g := range l.Groups {
		m.windows = append(m.windows, l.Groups[g].Exact)
		if l.Groups[g].Exact.Newest > 0 {
			m.exact = m.stride
		}
	}
	m.tokens, m.places = m.room(n), m.room(n)
	for range max(len(l.Groups), 1) {
		m.rows = append(m.rows, m.room(4*n))
	}
	m.ends, m.list = m.room(2*m.spans), m.room(4*m.spans)
	m.outputs = m.room(p.outputs())
	m.input = m.room(n * m.width)
	m.capacity, m.groups = n, len(l.Groups)
	return m
}

// tilesOf returns the tiles of at most rows rows for layers with an exact window.
func (m *image) tilesOf(rows int, w layout.Window) *tiles {
	w.Pinned = 0
	for _, t := range m.tiles {
		if t.rows == rows && t.window == w {
			return t
		}
	}
	t := &tiles{at: m.room(2 * m.capacity), rows: rows, window: w}
	m.tiles = append(m.tiles, t)
	return t
}

// finish places the page tables at the end, because most batches fill only a
// part of them. It allocates the image on the host and returns its size.
func (m *image) finish() int64 {
	m.tables = m.room(m.groups * m.spans * (m.stride + m.exact))
	m.data = make([]byte, m.size)
	return m.size
}

// ints returns the array of n values at an offset.
func (m *image) ints(at int64, n int) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(m.data[at:]))), n)
}

// check rejects batches that do not fit.
func (m *image) check(b *llm.Batch) error {
	if len(b.Spans) > m.spans {
		return fmt.Errorf("gpu: batch of %d sequences, at most %d", len(b.Spans), m.spans)
	}
	if len(b.Input) < len(b.Tokens)*m.width {
		return fmt.Errorf("gpu: %d values of input, want %d", len(b.Input), len(b.Tokens)*m.width)
	}
	for g := range m.groups {
		if len(b.Tables) <= g || len(b.Tables[g]) < len(b.Spans) {
			return fmt.Errorf("gpu: group %d lacks page tables", g)
		}
		for i, t := range b.Tables[g] {
			if len(t) > m.stride {
				return fmt.Errorf("gpu: sequence %d has %d pages, at most %d", b.Spans[i].Seq, len(t), m.stride)
			}
		}
		if m.windows[g].Newest > 0 && (len(b.Exact) <= g || len(b.Exact[g]) < len(b.Spans)) {
			return fmt.Errorf("gpu: group %d has no tables of exact pages", g)
		}
	}
	return nil
}

// fill writes a batch. If the shape has more rows than the batch, the extra
// rows are copies of the first row and repeat its work. Extra outputs also
// belong to the first row. It returns the number of bytes to upload.
func (m *image) fill(b *llm.Batch, s *shape) int64 {
	tokens, places := m.ints(m.tokens, s.rows), m.ints(m.places, s.rows)
	for r := copy(tokens, b.Tokens); r < s.rows; r++ {
		tokens[r] = b.Tokens[0]
	}
	for r := copy(places, b.Pos); r < s.rows; r++ {
		places[r] = b.Pos[0]
	}
	outputs := m.ints(m.outputs, s.outputs)
	clear(outputs[copy(outputs, b.Outputs):])
	m.fillSpans(b, s.spans)
	for _, t := range m.tiles {
		m.fillTiles(t, b, s)
	}
	for g := range m.rows {
		m.fillRows(b, g, s.rows)
	}
	for g := range m.groups {
		for i, t := range b.Tables[g][:len(b.Spans)] {
			copy(m.ints(m.tables+int64(4*m.first(g, i)), m.stride), t)
			if m.windows[g].Newest > 0 {
				copy(m.ints(m.tables+int64(4*(m.first(g, i)+m.exact)), m.stride), b.Exact[g][i])
			}
		}
	}
	if m.width > 0 {
		copy(m.data[m.input:], bytesOf(b.Input[:len(b.Tokens)*m.width]))
	}
	if m.groups == 0 {
		return m.tables
	}
	return m.tables + int64(4*(m.first(m.groups-1, len(b.Spans)-1)+m.stride+m.exact))
}

// first returns the index of a span's page table in tables.
func (m *image) first(group, span int) int { return (group*m.spans + span) * (m.stride + m.exact) }

func (m *image) fillSpans(b *llm.Batch, padded int) {
	ends, list := m.ints(m.ends, 2*m.spans), m.ints(m.list, 4*m.spans)
	clear(list[4*len(b.Spans) : 4*padded])
	for i, s := range b.Spans {
		ends[2*i], ends[2*i+1] = int32(s.First), int32(s.Rows)
		e := list[4*i : 4*i+4]
		e[0], e[1], e[2], e[3] = int32(s.First), int32(s.Rows), 0, s.State
		if b.Pos[s.First] == 0 {
			e[2] = 1
		}
	}
}

func (m *image) fillRows(b *llm.Batch, group, padded int) {
	rows := m.ints(m.rows[group], 4*padded)
	for i, s := range b.Spans {
		for r := s.First; r < s.First+s.Rows; r++ {
			e := rows[4*r : 4*r+4]
			e[0], e[1], e[2], e[3] = b.Pos[r], int32(s.Len), int32(m.first(group, i)), int32(s.Seq)
		}
	}
	for r := len(b.Tokens); r < padded; r++ {
		copy(rows[4*r:4*r+4], rows[:4])
	}
}

// fillTiles divides the spans into tiles. The extra rows of the shape follow.
// Each is a tile of -1 rows, so that its work is not counted.
func (m *image) fillTiles(t *tiles, b *llm.Batch, s *shape) {
	list := m.ints(t.at, 2*m.capacity)
	t.n = 0
	add := func(first, rows int) {
		list[2*t.n], list[2*t.n+1] = int32(first), int32(rows)
		t.n++
	}
	for _, sp := range b.Spans {
		for r, n := 0, 0; r < sp.Rows; r += n {
			n = min(t.rows, sp.Rows-r)
			first := t.window.FirstExact(int(b.Pos[sp.First+r]))
			for n > 1 && t.window.Newest > 0 && t.window.FirstExact(int(b.Pos[sp.First+r+n-1])) != first {
				n--
			}
			add(sp.First+r, n)
		}
	}
	for r := len(b.Tokens); r < s.rows; r++ {
		add(r, -1)
	}
}

// bytesOf returns a slice of numbers as bytes, without a copy.
func bytesOf[T float32 | int32 | int8](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}
