package layout

import (
	"encoding/binary"

	"godwit/engine/kv"
)

// SelfCalibration is a conversation's calibration of its own keys in one layer and
// KV head, for models without a calibration. It is measured on the first positions,
// while every row still reads them in exact form, and it is complete before the
// first page is packed. It depends only on those positions.
//
// The statistics over all positions that the conversation can reach are computed
// from it, as from a model's calibration. Source: spec gw-formats.md "Definition",
// calibration record.
type SelfCalibration struct {
	ChannelStats
	span     int // number of positions that a conversation can reach
	channels kv.Channels
	known    bool
}

const (
	// SelfRows is the number of first positions that a conversation's calibration
	// uses. Their rows read no packed page.
	SelfRows = 2*kv.PageCells - 1
	// selfSkip is the number of first positions to ignore, because their keys are
	// unlike all others.
	selfSkip = 4
	// selfNewest is the smallest exact window for self-calibration. With a
	// smaller one, the first page would be packed before the calibration is
	// complete.
	selfNewest = kv.PageCells
)

// NewSelfCalibration returns an empty calibration for heads of headDim values with RoPE r,
// and conversations of up to span positions.
func NewSelfCalibration(headDim int, r Rotary, span int) SelfCalibration {
	return SelfCalibration{
		ChannelStats: *NewChannelStats(headDim, r), span: span,
		channels: kv.Channels{Mean: make([]float32, headDim), Gain: make([]float32, headDim)},
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

// settle computes the channels from the measured statistics.
func (o *SelfCalibration) settle() {
	o.measure(&o.channels)
	o.known = true
}

// Channels returns the calibration, or nil while it is being measured.
func (o *SelfCalibration) Channels() *kv.Channels {
	if !o.known {
		return nil
	}
	return &o.channels
}

// Copy makes o a copy of from.
func (o *SelfCalibration) Copy(from *SelfCalibration) {
	o.known, o.keys.n, o.queries.n = from.known, from.keys.n, from.queries.n
	to := o.channelArrays()
	for i, x := range from.channelArrays() {
		copy(to[i], x)
	}
	copy(o.channels.Mean, from.channels.Mean)
	copy(o.channels.Gain, from.channels.Gain)
}

// selfKnown marks a complete calibration, in the key count of a row.
const selfKnown = 1 << 63

// Get writes the statistics as a row, which also records whether they are complete.
func (o *SelfCalibration) Get(row []byte) {
	o.ChannelStats.Get(row)
	if o.known {
		counts := row[8*6*len(o.back):]
		binary.LittleEndian.PutUint64(counts, binary.LittleEndian.Uint64(counts)|selfKnown)
	}
}

// Put is the inverse of Get. It rejects rows that no keys can produce.
func (o *SelfCalibration) Put(row []byte) error {
	counts := row[8*6*len(o.back):]
	keys := binary.LittleEndian.Uint64(counts)
	binary.LittleEndian.PutUint64(counts, keys&^selfKnown)
	err := o.ChannelStats.Put(row, SelfRows)
	binary.LittleEndian.PutUint64(counts, keys)
	if o.known = false; err != nil {
		return err
	}
	if keys&selfKnown != 0 {
		o.settle()
	}
	return nil
}

// self reports whether keys of a layer that need a calibration can be calibrated by
// each conversation. For this, the first page must stay in exact form for long
// enough.
func (r *resolver) self(in *LayerInfo) bool {
	n := r.set.ExactWindow
	return r.set.SelfCalibrate && !in.Rotary.Opaque && !in.Bidirectional && (n == nil || *n >= selfNewest) && (in.Window == 0 || in.Window >= selfNewest)
}
