package sched

import (
	"errors"
	"math"

	"godwit/engine/backend"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
)

// leastKept is the smallest number of first tokens that a shift keeps, because attention needs
// them as sinks. Source: arXiv 2309.17453.
const leastKept = 4

// shift makes room in a full sequence. It keeps the start, drops half of what
// follows, and moves the rest down. If the cells cannot be moved, the shorter
// text is read again.
func (s *Sched) shift(i int) error {
	sl := &s.slots[i]
	t := sl.task
	n := len(t.tokens)
	keep := t.Keep
	if keep < 0 {
		keep = t.stats.Prompt
	}
	keep = min(max(keep, leastKept), n/2)
	s.flush(i)
	drop := max((n-keep)/2, 1)
	t.tokens = append(t.tokens[:keep], t.tokens[keep+drop:]...)
	t.stats.Shifts++
	moved, err := s.move(i, keep, drop)
	switch {
	case err != nil:
		return err
	case moved:
		sl.tokens, sl.mixed = append(sl.tokens[:0], t.tokens...), keep
		sl.chain.cut(keep)
	default:
		s.forget(i)
	}
	t.read = len(t.tokens)
	return nil
}

// move removes positions keep to keep+drop-1 from a sequence. It returns false if they cannot be
// removed, for example because of recurrent states or windows. The sequence may then be empty, and
// the tokens must be read again.
func (s *Sched) move(i, keep, drop int) (bool, error) {
	l := s.cache.Layout()
	seq := s.slots[i].seq
	n := s.cache.Len(seq)
	if s.o.StateModel || len(s.o.Rotary) != len(l.Layers) {
		return false, nil
	}
	for g := range l.Groups {
		if l.Groups[g].SelfCalibrated { // the calibration depends on the beginning of the text
			return false, nil
		}
	}
	old := make([][]cells, len(l.Groups))
	for g := range l.Groups {
		lowest := 0 // lowest position that the next row sees
		if w := l.Groups[g].Window; w > 0 {
			lowest = max(0, n-drop-w+1)
		}
		for pos := range n - drop {
			from := pos
			if pos >= keep {
				from += drop
			}
			c := s.cells(g, seq, from)
			if c[layout.Packed] < 0 && pos >= lowest {
				return false, nil
			}
			old[g] = append(old[g], c)
		}
	}
	// Dropped cells keep their bytes until the device runs again.
	s.cache.Drop(seq)
	for left := n - drop; left > 0; {
		rows := min(left, s.o.Rows, s.cache.Step(seq))
		err := s.cache.Extend(seq, rows)
		switch {
		case err == nil:
			left -= rows
		case errors.Is(err, pages.ErrFull) && s.dropIdle():
		case errors.Is(err, pages.ErrFull):
			return false, nil
		default:
			return false, err
		}
	}
	// The last page of each extension still has an exact page. Drop it if no row needs it any more.
	// Otherwise the row would be written only there.
	if err := s.cache.Extend(seq, 0); err != nil {
		return false, err
	}
	for k := range l.Layers {
		y := &l.Layers[k]
		if !y.Owns() {
			continue
		}
		by := newRopeShift(s.o.Rotary[k], drop)
		for _, side := range []kv.Side{kv.K, kv.V} {
			if err := s.moveRows(i, k, side, old[y.Group], keep, drop, by); err != nil {
				return false, err
			}
		}
	}
	s.cache.Moved(seq)
	return true, nil
}

// cells are the cells of one position by tier, -1 for none.
type cells [3]int32

func (s *Sched) cells(group int, seq llm.Seq, pos int) cells {
	return cells{s.cache.Cell(group, seq, pos), s.cache.ExactCell(group, seq, pos), s.cache.PinnedCell(group, seq, pos)}
}

// moveRows copies one side of a layer from its old cells to the cells that the
// sequence has now. All rows are read before the first is written, because old
// and new cells overlap.
func (s *Sched) moveRows(i, layer int, side kv.Side, old []cells, keep, drop int, by []ropeShift) error {
	y := &s.cache.Layout().Layers[layer]
	if y.Side(side).RowBytes == 0 {
		return nil // V is a view of K
	}
	m := mover{prog: s.prog, y: y, layer: layer, side: side, x: make([]float32, y.Side(side).HeadDim*y.KVHeads)}
	return s.rewriteRows(&m, i, 0, old, func(pos int) (int, []ropeShift) {
		switch {
		case pos < keep:
			return pos, nil
		case side == kv.K:
			return pos + drop, by
		}
		return pos + drop, nil
	})
}

// rewriteRows copies rows of m's layer from old cells to the cells that slot i has now, for
// positions from first on. origin returns a row's old position and the rotation to the new one.
func (s *Sched) rewriteRows(m *mover, i, first int, old []cells, origin func(pos int) (from int, by []ropeShift)) error {
	rows := make([][3][]byte, len(old))
	for k, from := range old {
		m.to = first + k
		m.from, m.ropeShifts = origin(m.to)
		var err error
		if rows[k], err = m.read(from, m.wanted(s.cells(m.y.Group, s.slots[i].seq, m.to))); err != nil {
			return err
		}
	}
	for k := range rows {
		to := s.cells(m.y.Group, s.slots[i].seq, first+k)
		for part, row := range rows[k] {
			if row == nil {
				continue
			}
			if err := m.prog.WriteRow(m.layer, m.side, layout.Tier(part), to[part], row); err != nil {
				return err
			}
		}
	}
	return nil
}

// mover moves rows of one side of a layer to other positions.
type mover struct {
	prog       backend.Program
	y          *layout.Layer
	layer      int
	side       kv.Side
	from, to   int
	ropeShifts []ropeShift // rotation of a moved key; nil for none
	x          []float32   // all heads of a row
}

// wanted keeps only the tiers in c that hold a row. Types that are packed by page have no packed
// row while an exact row exists.
func (m *mover) wanted(c cells) cells {
	s := m.y.Side(m.side)
	for part := range c {
		if s.Row(layout.Tier(part)) == 0 {
			c[part] = -1
		}
	}
	if s.PackedByPage() && c[layout.Exact] >= 0 {
		c[layout.Packed] = -1
	}
	return c
}

// read returns the row for every tier in to. If the row is not rotated and had
// that tier, its bytes are copied. Otherwise it is encoded from the most exact
// tier that it had.
func (m *mover) read(from, to cells) (rows [3][]byte, err error) {
	from = m.wanted(from)
	if from[layout.Packed] < 0 && from[layout.Exact] < 0 {
		return rows, nil // the row was given back because it is outside the window
	}
	s, decoded := m.y.Side(m.side), false
	for part := range rows {
		p := layout.Tier(part)
		if to[p] < 0 {
			continue
		}
		rows[p] = make([]byte, s.Row(p))
		if m.ropeShifts == nil && from[p] >= 0 {
			if err := m.prog.ReadRow(rows[p], m.layer, m.side, p, from[p]); err != nil {
				return rows, err
			}
			continue
		}
		if !decoded {
			if err := m.decode(from); err != nil {
				return rows, err
			}
			decoded = true
		}
		m.each(s.Form(p), rows[p], func(x []float32, row []byte, t *kv.Type, at kv.At) {
			at.Pos = m.to
			t.Encode(row, x, at)
		})
	}
	return rows, nil
}

// decode writes the values of a row to x, rotated to the new position.
func (m *mover) decode(from cells) error {
	best := layout.Packed
	for _, p := range []layout.Tier{layout.Exact, layout.Pinned} {
		if from[p] >= 0 {
			best = p
		}
	}
	s := m.y.Side(m.side)
	row := make([]byte, s.Row(best))
	if err := m.prog.ReadRow(row, m.layer, m.side, best, from[best]); err != nil {
		return err
	}
	m.each(s.Form(best), row, func(x []float32, row []byte, t *kv.Type, at kv.At) {
		t.Decode(x, row, at)
		for i := range m.ropeShifts {
			m.ropeShifts[i].apply(x)
		}
	})
	return nil
}

// each calls f for every KV head of a row.
func (m *mover) each(t *kv.Type, row []byte, f func(x []float32, row []byte, t *kv.Type, at kv.At)) {
	s := m.y.Side(m.side)
	n := t.RowBytes(s.HeadDim)
	for h := range m.y.KVHeads {
		at := kv.At{Pos: m.from, RopeBase: m.y.RopeBase}
		if s.Channels != nil {
			at.Channels = &s.Channels[h]
		}
		f(m.x[h*s.HeadDim:(h+1)*s.HeadDim], row[h*n:(h+1)*n], t, at)
	}
}

// ropeShift is a RotaryPart with the sine and cosine of a distance.
type ropeShift struct {
	layout.RotaryPart
	cos, sin []float32
}

// newRopeShift returns the rotation of keys that move down by drop positions.
func newRopeShift(r layout.Rotary, drop int) []ropeShift {
	var list []ropeShift
	for _, p := range r.Parts {
		t := ropeShift{p, make([]float32, len(p.Freqs)), make([]float32, len(p.Freqs))}
		for j, f := range p.Freqs {
			sin, cos := math.Sincos(-float64(drop) * float64(f))
			t.cos[j], t.sin[j] = float32(cos), float32(sin)
		}
		list = append(list, t)
	}
	return list
}

func (t *ropeShift) apply(x []float32) {
	for j := range t.Freqs {
		a, b := t.Pair(j)
		u, v := x[a], x[b]
		x[a] = u*t.cos[j] - v*t.sin[j]
		x[b] = u*t.sin[j] + v*t.cos[j]
	}
}
