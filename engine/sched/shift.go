package sched

import (
	"errors"
	"math"

	"godwit/engine/kv"
)

// Rotary says how a layer's keys were turned by their position. No parts: they
// do not depend on it.
type Rotary struct{ Parts []RotaryPart }

// RotaryPart is a run of columns of each head: pair j was turned by the angle
// position·Freqs[j].
type RotaryPart struct {
	First    int // column
	Freqs    []float32
	Adjacent bool // pairs (2j, 2j+1) rather than (j, j+n/2)
}

// sinks is how many tokens of the start a shift keeps at least: without them
// attention has nowhere to rest. Source: arXiv 2309.17453.
const sinks = 4

// shift makes room in a full sequence: it keeps the start, drops half of what
// follows, and moves the rest down. Where the cells cannot be moved the shorter
// text is read again.
func (s *Sched) shift(i int) error {
	sl := &s.slots[i]
	t := sl.task
	n := len(t.tokens)
	keep := t.Keep
	if keep < 0 {
		keep = t.stats.Prompt
	}
	keep = min(max(keep, sinks), n/2)
	drop := max((n-keep)/2, 1)
	t.tokens = append(t.tokens[:keep], t.tokens[keep+drop:]...)
	t.stats.Shifts++
	moved, err := s.move(i, keep, drop)
	switch {
	case err != nil:
		return err
	case moved:
		sl.tokens = append(sl.tokens[:0], t.tokens...)
	default:
		s.empty(i)
	}
	t.read = len(t.tokens)
	return nil
}

// move takes positions keep to keep+drop out of a sequence. It reports false,
// and may leave the sequence empty, where that needs the tokens to be read
// again: recurrent states and windows hold what cannot be taken out of them.
func (s *Sched) move(i, keep, drop int) (bool, error) {
	l := s.cache.Layout()
	seq := s.slots[i].seq
	n := s.cache.Len(seq)
	if s.o.StateModel || len(s.o.Rotary) != len(l.Layers) || s.exact() {
		return false, nil
	}
	old := make([][]int32, len(l.Groups))
	for g := range l.Groups {
		lowest := 0 // what the next row sees
		if w := l.Groups[g].Window; w > 0 {
			lowest = max(0, n-drop-w+1)
		}
		for pos := range n - drop {
			from := pos
			if pos >= keep {
				from += drop
			}
			cell := s.cache.Cell(g, seq, from)
			if cell < 0 && pos >= lowest {
				return false, nil
			}
			old[g] = append(old[g], cell)
		}
	}
	// Cells that are given back keep their bytes until the device runs again.
	s.cache.Drop(seq)
	for left := n - drop; left > 0; {
		take := min(left, s.o.Rows)
		err := s.cache.Extend(seq, take)
		switch {
		case err == nil:
			left -= take
		case errors.Is(err, kv.ErrFull) && s.dropIdle():
		case errors.Is(err, kv.ErrFull):
			return false, nil
		default:
			return false, err
		}
	}
	for k := range l.Layers {
		y := &l.Layers[k]
		if !y.Owns() {
			continue
		}
		turn := newTurn(s.o.Rotary[k], drop)
		for _, side := range []kv.Side{kv.K, kv.V} {
			if err := s.moveRows(i, k, side, old[y.Group], keep, drop, turn); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// exact reports whether the device keeps rows in a second, unpacked form.
func (s *Sched) exact() bool {
	for i, y := range s.cache.Layout().Layers {
		if y.Owns() && s.prog.RowBytes(i, kv.K, kv.Exact)+s.prog.RowBytes(i, kv.V, kv.Exact) > 0 {
			return true
		}
	}
	return false
}

// moveRows copies one side of a layer from its old cells to those that the
// sequence has now. All rows are read before the first is written, since old
// and new cells overlap.
func (s *Sched) moveRows(i, layer int, side kv.Side, old []int32, keep, drop int, turn []turned) error {
	y := &s.cache.Layout().Layers[layer]
	size := y.Side(side).RowBytes
	if size == 0 {
		return nil // V that is a view of K
	}
	rows := make([]byte, len(old)*size)
	for pos, cell := range old {
		if cell < 0 {
			continue
		}
		row := rows[pos*size : (pos+1)*size]
		if err := s.prog.ReadRow(row, layer, side, kv.Packed, cell); err != nil {
			return err
		}
		if side == kv.K && pos >= keep {
			turnRow(y, row, pos+drop, pos, turn)
		}
	}
	for pos, cell := range old {
		if cell < 0 {
			continue
		}
		to := s.cache.Cell(y.Group, s.slots[i].seq, pos)
		if err := s.prog.WriteRow(layer, side, kv.Packed, to, rows[pos*size:(pos+1)*size]); err != nil {
			return err
		}
	}
	return nil
}

// turned is a RotaryPart with the sine and cosine of a distance.
type turned struct {
	RotaryPart
	cos, sin []float32
}

// newTurn is the turn of keys that move down by drop positions.
func newTurn(r Rotary, drop int) []turned {
	var list []turned
	for _, p := range r.Parts {
		t := turned{p, make([]float32, len(p.Freqs)), make([]float32, len(p.Freqs))}
		for j, f := range p.Freqs {
			sin, cos := math.Sincos(-float64(drop) * float64(f))
			t.cos[j], t.sin[j] = float32(cos), float32(sin)
		}
		list = append(list, t)
	}
	return list
}

// turnRow decodes the keys of a row, turns them, and encodes them again.
func turnRow(y *kv.LayerLayout, row []byte, from, to int, turn []turned) {
	k := &y.K
	x := make([]float32, k.HeadDim)
	for h := range y.KVHeads {
		head := row[h*k.HeadBytes : (h+1)*k.HeadBytes]
		at := kv.At{Pos: from, RopeBase: y.RopeBase}
		if k.Channels != nil {
			at.Channels = &k.Channels[h]
		}
		k.Active.Decode(x, head, at)
		for _, t := range turn {
			t.apply(x)
		}
		at.Pos = to
		k.Active.Encode(head, x, at)
	}
}

func (t *turned) apply(x []float32) {
	n := len(t.Freqs)
	x = x[t.First : t.First+2*n]
	for j := range n {
		a, b := j, j+n
		if t.Adjacent {
			a, b = 2*j, 2*j+1
		}
		u, v := x[a], x[b]
		x[a] = u*t.cos[j] - v*t.sin[j]
		x[b] = u*t.sin[j] + v*t.cos[j]
	}
}
