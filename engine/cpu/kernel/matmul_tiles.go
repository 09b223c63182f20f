//go:build amd64 || arm64

package kernel

// weightChunk is the size in bytes of the weights that stay in the second-level
// cache while all activation rows pass over them.
const weightChunk = 384 << 10

// tiling is one multiplication, divided into the shapes of the kernels.
type tiling struct {
	w      *Packed
	a      *Acts     // quantised activations; nil for float ones
	x      []float32 // float activations
	ldx    int       // stride of x
	y      []float32
	ldy    int
	size   int  // bytes per panel
	wide   bool // there are kernels for eight rows
	pair   int  // number of rows of the kernels for two panels
	ahead  int  // weights before this panel may be prefetched
	blocks int  // blocks per row of weights, or columns for float activations
}

func (t *tiling) run(row0, row1, panel0, panel1 int) {
	step := max(2, weightChunk/t.size&^1)
	whole := min(panel1, t.w.Rows/PanelRows)
	for p := panel0; p < whole; p += step {
		n := min(step, whole-p)
		odd := 0
		if n > 1 && t.pairs(row1-row0) {
			odd = n % 2
		}
		t.block(row0, row1, p, n-odd)
		if odd > 0 {
			t.block(row0, row1, p+n-odd, odd)
		}
	}
	if whole < panel1 {
		t.last(row0, row1)
	}
}

// pairs reports whether that many rows use kernels for two panels.
func (t *tiling) pairs(rows int) bool {
	first := 4
	if t.wide {
		first = 8
	}
	return t.pair > 0 && rows-first > 4
}

// block multiplies n panels from p on. n is 1, or even if pairs are needed.
func (t *tiling) block(row0, row1, p, n int) {
	for i := row0; i < row1; {
		from, rows, panels := t.next(i, row0, row1, n)
		t.kernel(panels, rows, &t.y[from*t.ldy+p*PanelRows], 4*t.ldy, from, p, n)
		i = from + rows
	}
}

// next chooses the rows to multiply from row i on, and the number of panels at
// once. The first tile fetches the weights from memory, which works best with
// one panel at a time. Up to four rows have a kernel for their exact number.
// Two panels have only kernels for t.pair rows, so the last tile steps back to
// be full and recomputes the same bits.
func (t *tiling) next(i, row0, row1, n int) (from, rows, panels int) {
	left, first := row1-i, i == row0
	switch {
	case left <= 4, t.wide && first && left <= 8:
		return i, left, 1
	case t.wide && left >= 8 && (first || n < 2 || left == 8):
		return i, 8, 1
	case t.pair > 0 && n > 1 && !first:
		return min(i, row1-t.pair), t.pair, 2
	}
	return i, 4, 1
}

// last multiplies the last panel, which has fewer rows than a kernel writes.
func (t *tiling) last(row0, row1 int) {
	p := t.w.Panels() - 1
	var out [8 * PanelRows]float32
	for i := row0; i < row1; {
		from, n, _ := t.next(i, row0, row1, 1)
		t.kernel(1, n, &out[0], 4*PanelRows, from, p, 1)
		for j := range n {
			copy(t.y[(from+j)*t.ldy+p*PanelRows:(from+j)*t.ldy+t.w.Rows], out[j*PanelRows:])
		}
		i = from + n
	}
}
