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
// What it is over the positions that the conversation can reach follows from
// that, as it does for a model's calibration.
// Source: spec gw-formats.md "Definition", calibration record.
type Own struct {
	ChannelStats
	span     int // positions that a conversation can reach
	channels Channels
	known    bool
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
	return Own{
		ChannelStats: *NewChannelStats(headDim, r), span: span,
		channels: Channels{Mean: make([]float32, headDim), Gain: make([]float32, headDim)},
	}
}

// ownBytes is the memory of an Own.
func ownBytes(headDim int) int { return ownRow(headDim) + (2*8+2*4)*headDim }

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
	o.AddKey(pos, k)
	for len(q) > 0 {
		o.AddQuery(pos, q[:len(k)])
		q = q[len(k):]
	}
	if pos == OwnRows-1 {
		o.spread(o.span)
		o.settle()
	}
}

// settle makes the channels of what was measured and spread.
func (o *Own) settle() {
	o.measure(&o.channels)
	o.known = true
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
	return r.set.SelfCalibrate && !in.Rotary.Opaque && !in.Bidirectional && (n == nil || *n >= ownNewest) && (in.Window == 0 || in.Window >= ownNewest)
}
