package kv

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Own is the calibration that a conversation takes of its own keys, in one
// layer and KV head, where the model has none: measured on the first positions
// while every row still reads them in exact form, and there before a page is
// packed. It depends on those positions alone.
//
// What is measured is turned back to position 0, and what it would be on
// average over all positions that a conversation can reach follows from it: the
// mean of keys near the beginning is not that of keys far on.
// Source: spec gw-formats.md "Definition", calibration record.
type Own struct {
	rotary        []RotaryPart
	span          float64 // positions that a conversation can reach
	keys, queries sums
	back          []float64 // a row at position 0
	channels      Channels
	known         bool
}

// sums are over rows: of the values, their squares, and the products of
// each pair of the rotary embedding, beside its first column.
type sums struct {
	n                  int
	sum, square, cross []float64
}

const (
	// OwnRows is the number of positions from which a conversation calibrates
	// itself: those whose rows read no packed page.
	OwnRows = 2*PageCells - 1
	// ownSkip is the first positions, whose keys are unlike all others.
	ownSkip = 4
	// ownNewest is the exact window that lets the first page wait for them.
	ownNewest = PageCells
)

// NewOwn is what a conversation has measured before it begins, for heads of
// headDim values that are turned by r, and conversations of up to span
// positions.
func NewOwn(headDim int, r Rotary, span int) Own {
	m := func() sums {
		return sums{sum: make([]float64, headDim), square: make([]float64, headDim), cross: make([]float64, headDim)}
	}
	return Own{
		rotary: r.Parts, span: float64(max(span, OwnRows)), keys: m(), queries: m(), back: make([]float64, headDim),
		channels: Channels{Mean: make([]float32, headDim), Gain: make([]float32, headDim)},
	}
}

// ownBytes is the memory of an Own.
func ownBytes(headDim int) int { return ownRow(headDim) + (8+2*4)*headDim }

// ownRow is the size of a row of it: the sums of keys and of queries, and how
// many of each.
func ownRow(headDim int) int { return 8 * (2*3*headDim + 2) }

// Add counts the key at pos and the queries that read it, one after another in
// q. Positions come in order from 0, which begins anew; those from OwnRows on
// do not count.
func (o *Own) Add(pos int, k, q []float32) {
	switch {
	case pos == 0:
		o.keys.clear()
		o.queries.clear()
		o.known = false
		return
	case pos < ownSkip || pos >= OwnRows:
		return
	}
	o.count(&o.keys, pos, k)
	for len(q) > 0 {
		o.count(&o.queries, pos, q[:len(k)])
		q = q[len(k):]
	}
	if pos == OwnRows-1 {
		o.spread(&o.keys)
		o.spread(&o.queries)
		o.settle()
	}
}

// count adds a row at pos, turned back. One that is not finite is left out.
func (o *Own) count(m *sums, pos int, x []float32) {
	if !finite(x) {
		return
	}
	for i, v := range x {
		o.back[i] = float64(v)
	}
	for i := range o.rotary {
		p := &o.rotary[i]
		for j, f := range p.Freqs {
			a, b := p.Pair(j)
			sin, cos := math.Sincos(float64(pos) * float64(f))
			u, v := o.back[a], o.back[b]
			o.back[a], o.back[b] = u*cos+v*sin, v*cos-u*sin
			m.cross[a] += o.back[a] * o.back[b]
		}
	}
	for i, v := range o.back {
		m.sum[i] += v
		m.square[i] += v * v
	}
	m.n++
}

func (m *sums) clear() {
	m.n = 0
	for _, x := range m.arrays() {
		clear(x)
	}
}

func (m *sums) arrays() [3][]float64 { return [3][]float64{m.sum, m.square, m.cross} }

// settle makes the channels of what was measured and spread.
func (o *Own) settle() {
	s := ChannelStats{keys: o.keys.n, queries: o.queries.n, sum: o.keys.sum, square: o.keys.square, query: o.queries.square}
	s.measure(&o.channels)
	o.known = true
}

// spread replaces the sums at position 0 by those of the same rows spread
// evenly over the positions from 0 to span.
func (o *Own) spread(m *sums) {
	for i := range o.rotary {
		p := &o.rotary[i]
		for j, f := range p.Freqs {
			a, b := p.Pair(j)
			t := newTurned(float64(f) * o.span)
			u, v := m.sum[a], m.sum[b]
			m.sum[a], m.sum[b] = t.cos*u-t.sin*v, t.sin*u+t.cos*v
			u, v = m.square[a], m.square[b]
			both := 2 * t.cross * m.cross[a]
			m.square[a], m.square[b] = t.cos2*u+(1-t.cos2)*v-both, (1-t.cos2)*u+t.cos2*v+both
		}
	}
}

// turned is averages over the angles from 0 to some: of cosine, sine, cosine
// squared, and cosine times sine.
type turned struct{ cos, sin, cos2, cross float64 }

func newTurned(angle float64) turned {
	if math.Abs(angle) < 1e-9 { // all of them are what they are at 0, to the last bit of a float32
		return turned{cos: 1, cos2: 1}
	}
	sin, cos := math.Sincos(angle)
	return turned{
		cos: sin / angle, sin: (1 - cos) / angle,
		cos2: 0.5 + sin*cos/(2*angle), cross: sin * sin / (2 * angle),
	}
}

// Channels is the calibration; nil while it is being measured.
func (o *Own) Channels() *Channels {
	if !o.known {
		return nil
	}
	return &o.channels
}

// arrays are what is measured.
func (o *Own) arrays() [6][]float64 {
	k, q := o.keys.arrays(), o.queries.arrays()
	return [6][]float64{k[0], k[1], k[2], q[0], q[1], q[2]}
}

// Copy makes o what from is.
func (o *Own) Copy(from *Own) {
	o.known, o.keys.n, o.queries.n = from.known, from.keys.n, from.queries.n
	to := o.arrays()
	for i, x := range from.arrays() {
		copy(to[i], x)
	}
	copy(o.channels.Mean, from.channels.Mean)
	copy(o.channels.Gain, from.channels.Gain)
}

// Get writes what was measured; the row says whether it is complete.
func (o *Own) Get(row []byte) {
	n := len(o.back)
	for i, x := range o.arrays() {
		for j, v := range x {
			binary.LittleEndian.PutUint64(row[8*(i*n+j):], math.Float64bits(v))
		}
	}
	counts := row[8*2*3*n:]
	keys := uint64(o.keys.n)
	if o.known {
		keys |= 1 << 63
	}
	binary.LittleEndian.PutUint64(counts, keys)
	binary.LittleEndian.PutUint64(counts[8:], uint64(o.queries.n))
}

// Put is the inverse of Get. What no rows can have measured is an error.
func (o *Own) Put(row []byte) error {
	n := len(o.back)
	counts := row[8*2*3*n:]
	keys, queries := binary.LittleEndian.Uint64(counts), binary.LittleEndian.Uint64(counts[8:])
	known := keys>>63 != 0
	keys &^= 1 << 63
	if keys > OwnRows || queries > OwnRows*maxKVHeads {
		return fmt.Errorf("%w: a calibration of %d keys and %d queries, at most %d keys are possible", ErrSession, keys, queries, OwnRows)
	}
	o.keys.n, o.queries.n, o.known = int(keys), int(queries), false
	for i, x := range o.arrays() {
		for j := range x {
			v := math.Float64frombits(binary.LittleEndian.Uint64(row[8*(i*n+j):]))
			if v-v != 0 {
				return fmt.Errorf("%w: a calibration that is not finite", ErrSession)
			}
			x[j] = v
		}
	}
	if known {
		o.settle()
	}
	return nil
}

// self reports whether keys of a layer that want a calibration can take their
// own from each conversation: the first page has to wait for it in exact form.
func (r *resolver) self(in *LayerInfo) bool {
	n := r.set.ExactWindow
	return r.set.SelfCalibrate && !in.Bidirectional && (n == nil || *n >= ownNewest) && (in.Window == 0 || in.Window >= ownNewest)
}
