package kv

import (
	"fmt"
	"math"
)

// InnerQ equalises the channels of keys before they are rotated, from the keys
// alone: channel c is multiplied by (mean rms / rms of c)^Strength, and the
// query divided by it. It is measured until every KV head has seen Groups
// groups of 128 values. The zero value is off. Source: spec kv-policies.md
// section 6.
type InnerQ struct {
	Groups   int
	Strength float64 // above 0 and at most 1; any other value counts as 0.5
}

// Limits of InnerQ.
const (
	evenGroup = 128 // values per group
	evenSmall = 1e-10
	evenLeast = 0.5 // bounds of a channel's factor
	evenMost  = 2
	evenNear  = 1.2 // ratio to the mean below which channels count as equal
)

func (q InnerQ) check() error {
	if q.Groups < 0 || q.Groups > maxCells {
		return fmt.Errorf("kv: InnerQ over %d groups; 0 to %d are possible", q.Groups, maxCells)
	}
	return nil
}

// Tokens returns the number of keys that every KV head must see.
func (q InnerQ) Tokens(layers []LayerInfo) int {
	least := 0 // values of the smallest head
	for i := range layers {
		if in := &layers[i]; in.owns() && (least == 0 || in.HeadDimK < least) {
			least = in.HeadDimK
		}
	}
	if least == 0 || q.Groups == 0 {
		return 0
	}
	return int(min((int64(q.Groups)*evenGroup+int64(least)-1)/int64(least), maxCells))
}

// evens reports whether InnerQ applies to keys of this form: packed after a
// rotation, and not normalised by a calibration.
func (t *Type) evens() bool {
	for _, p := range t.Join {
		if p.Form.evens() {
			return true
		}
	}
	return !t.Float && t.Rotation.Size > 0 && !t.Levelled
}

// Even returns the table of InnerQ from the statistics; ok is false if the
// channels are already equal.
func (s *ChannelStats) Even(q InnerQ) (c Channels, ok bool) {
	if !(q.Strength > 0 && q.Strength <= 1) {
		q.Strength = 0.5
	}
	n := len(s.back)
	c = Channels{Mean: make([]float32, n), Gain: make([]float32, n)}
	rms := make([]float64, n)
	var mean float64
	for i, sq := range s.keys.square {
		rms[i] = math.Sqrt(sq / float64(max(s.keys.n, 1)))
		mean += rms[i] / float64(n)
	}
	most, least := 1.0, 1.0
	for i, r := range rms {
		ratio := 1.0
		if r > evenSmall {
			ratio = mean / r
		}
		most, least = max(most, ratio), min(least, ratio)
		c.Gain[i] = float32(min(max(math.Pow(ratio, q.Strength), evenLeast), evenMost))
	}
	return c, most >= evenNear || least <= 1/evenNear
}

// even gives the keys of a layer their table, or says why they need none.
// Before the tables exist it says that they will come.
func (r *resolver) even(y *LayerLayout) {
	if r.set.InnerQ.Groups == 0 || y.MLA || !y.K.Active.evens() {
		return
	}
	if r.set.Even == nil {
		y.K.Even = true
		return
	}
	y.K.Channels = r.set.Even[len(r.out.Layers)]
	y.K.Even = y.K.Channels != nil
}

// checkEven rejects tables that are not for these layers.
func (s *Settings) checkEven(layers []LayerInfo) error {
	if s.Even == nil {
		return nil
	}
	if len(s.Even) != len(layers) {
		return fmt.Errorf("kv: InnerQ tables of %d layers, the model has %d", len(s.Even), len(layers))
	}
	for i, heads := range s.Even {
		if heads == nil {
			continue
		}
		if len(heads) != layers[i].KVHeads {
			return fmt.Errorf("kv: InnerQ tables of %d KV heads in layer %d, the model has %d", len(heads), i, layers[i].KVHeads)
		}
		for h := range heads {
			if !heads[h].fits(layers[i].HeadDimK) {
				return fmt.Errorf("kv: layer %d head %d: an InnerQ table of %d channels, not %d finite ones", i, h, len(heads[h].Gain), layers[i].HeadDimK)
			}
		}
	}
	return nil
}
