package kv

import (
	"encoding/binary"
	"fmt"
)

// SelfCalibration is a conversation's calibration of its own keys, in one layer and KV
// head, for models without a calibration. It is measured on the first positions
// while every row still reads them in exact form, and completes before the
// first page is packed. It depends on those positions only.
//
// The statistics over all positions that the conversation can reach follow from
// it, as for a model's calibration. Source: spec gw-formats.md "Definition",
// calibration record.
type SelfCalibration struct {
	ChannelStats
	span     int // number of positions that a conversation can reach
	channels Channels
	known    bool
}

const (
	// SelfRows is the number of positions from which a conversation calibrates
	// itself: those whose rows read no packed page.
	SelfRows = 2*PageCells - 1
	// selfSkip is the number of first positions to ignore, since their keys are
	// unlike all others.
	selfSkip = 4
	// selfNewest is the exact window that delays the first packed page for long
	// enough.
	selfNewest = PageCells
)

// NewSelfCalibration returns an empty calibration for heads of headDim values with RoPE r,
// and conversations of up to span positions.
func NewSelfCalibration(headDim int, r Rotary, span int) SelfCalibration {
	return SelfCalibration{
		ChannelStats: *NewChannelStats(headDim, r), span: span,
		channels: Channels{Mean: make([]float32, headDim), Gain: make([]float32, headDim)},
	}
}

// selfBytes returns the memory of a SelfCalibration.
func selfBytes(headDim int) int { return selfRow(headDim) + (2*8+2*4)*headDim }

// selfRow returns the size of a SelfCalibration's row.
func selfRow(headDim int) int { return ChannelRow(headDim) }

// Add adds the key at pos and the queries that read it, one after another in q.
// Positions come in order; position 0 starts over, and positions from SelfRows
// on are ignored.
func (o *SelfCalibration) Add(pos int, k, q []float32) {
	switch {
	case pos == 0:
		o.keys.clear()
		o.queries.clear()
		o.known = false
		return
	case pos < selfSkip || pos >= SelfRows:
		return
	}
	o.AddKey(pos, k)
	for len(q) > 0 {
		o.AddQuery(pos, q[:len(k)])
		q = q[len(k):]
	}
	if pos == SelfRows-1 {
		o.spread(o.span)
		o.settle()
	}
}

// settle computes the channels from the measurement.
func (o *SelfCalibration) settle() {
	o.measure(&o.channels)
	o.known = true
}

// Channels returns the calibration; nil while it is being measured.
func (o *SelfCalibration) Channels() *Channels {
	if !o.known {
		return nil
	}
	return &o.channels
}

// Copy copies from.
func (o *SelfCalibration) Copy(from *SelfCalibration) {
	o.known, o.keys.n, o.queries.n = from.known, from.keys.n, from.queries.n
	to := o.channelArrays()
	for i, x := range from.channelArrays() {
		copy(to[i], x)
	}
	copy(o.channels.Mean, from.channels.Mean)
	copy(o.channels.Gain, from.channels.Gain)
}

// selfKnown marks, in the count of keys of a row, a calibration that is complete.
const selfKnown = 1 << 63

// Get writes the measurement as a row, which says whether it is complete.
func (o *SelfCalibration) Get(row []byte) {
	o.ChannelStats.Get(row)
	if o.known {
		counts := row[8*6*len(o.back):]
		binary.LittleEndian.PutUint64(counts, binary.LittleEndian.Uint64(counts)|selfKnown)
	}
}

// Put is the inverse of Get. A row that no keys can produce is an error.
func (o *SelfCalibration) Put(row []byte) error {
	counts := row[8*6*len(o.back):]
	keys := binary.LittleEndian.Uint64(counts)
	binary.LittleEndian.PutUint64(counts, keys&^selfKnown)
	err := o.ChannelStats.Put(row, SelfRows)
	binary.LittleEndian.PutUint64(counts, keys)
	if o.known = false; err != nil {
		return fmt.Errorf("%w: %w", ErrSession, err)
	}
	if keys&selfKnown != 0 {
		o.settle()
	}
	return nil
}

// self reports whether keys of a layer that need a calibration can take one
// from each conversation: the first page must wait for it in exact form.
func (r *resolver) self(in *LayerInfo) bool {
	n := r.set.ExactWindow
	return r.set.SelfCalibrate && !in.Rotary.Opaque && !in.Bidirectional && (n == nil || *n >= selfNewest) && (in.Window == 0 || in.Window >= selfNewest)
}
