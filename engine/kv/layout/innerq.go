package layout

import (
	"fmt"
	"math"

	"godwit/engine/kv"
)

// InnerQ equalises the channels of keys before their rotation. It looks at the
// keys only. Channel c is multiplied by (mean rms / rms of c)^Strength, and the
// query is divided by the same factor. The measurement ends when every KV head
// has seen Groups groups of 128 values. The zero value is off. Source: spec
// kv-policies.md section 6.
type InnerQ struct {
	Groups   int
	Strength float64 // exponent, above 0 and at most 1; any other value counts as 0.5
}

// Limits of InnerQ.
const (
	equalGroup = 128 // values per group
	equalSmall = 1e-10
	equalLeast = 0.5 // bounds of a channel's factor
	equalMost  = 2
	equalNear  = 1.2 // ratio to the mean below which channels count as equal
)

func (q InnerQ) check() error {
	if q.Groups < 0 || q.Groups > MaxCells {
		return fmt.Errorf("kv: InnerQ over %d groups; 0 to %d are possible", q.Groups, MaxCells)
	}
	return nil
}

// Tokens returns the number of keys that InnerQ needs for every KV head.
func (q InnerQ) Tokens(layers []LayerInfo) int {
	least := 0 // number of values in the smallest head
	for i := range layers {
		if in := &layers[i]; in.owns() && (least == 0 || in.HeadDimK < least) {
			least = in.HeadDimK
		}
	}
	if least == 0 || q.Groups == 0 {
		return 0
	}
	return int(min((int64(q.Groups)*equalGroup+int64(least)-1)/int64(least), MaxCells))
}

// equalises reports whether InnerQ applies to keys of a form: packed after a
// rotation, and not normalised by a calibration.
func equalises(t *kv.Type) bool {
	for _, p := range t.Join {
		if equalises(p.Form) {
			return true
		}
	}
	return !t.Float && t.Rotation.Size > 0 && !t.Normalised
}

// Equalise computes the table of InnerQ from the statistics. ok is false if the
// channels are equal already.
func (s *ChannelStats) Equalise(q InnerQ) (c kv.Channels, ok bool) {
	if !(q.Strength > 0 && q.Strength <= 1) {
		q.Strength = 0.5
	}
	n := len(s.back)
	c = kv.Channels{Mean: make([]float32, n), Gain: make([]float32, n)}
	rms := make([]float64, n)
	var mean float64
	for i, sq := range s.keys.square {
		rms[i] = math.Sqrt(sq / float64(max(s.keys.n, 1)))
		mean += rms[i] / float64(n)
	}
	most, least := 1.0, 1.0
	for i, r := range rms {
		ratio := 1.0
		if r > equalSmall {
			ratio = mean / r
		}
		most, least = max(most, ratio), min(least, ratio)
		c.Gain[i] = float32(min(max(math.Pow(ratio, q.Strength), equalLeast), equalMost))
	}
	return c, most >= equalNear || least <= 1/equalNear
}

// equalise sets the table for the keys of a layer, or returns why they need none.
// Before the tables exist, it records that they will follow.
func (r *resolver) equalise(y *Layer) {
	if r.set.InnerQ.Groups == 0 || y.MLA || !equalises(y.K.Active) {
		return
	}
	if r.set.Equalised == nil {
		y.K.Equalised = true
		return
	}
	y.K.Channels = r.set.Equalised[len(r.out.Layers)]
	y.K.Equalised = y.K.Channels != nil
}

// checkEqualised rejects tables that are not for these layers.
func (s *Settings) checkEqualised(layers []LayerInfo) error {
	if s.Equalised == nil {
		return nil
	}
	if len(s.Equalised) != len(layers) {
		return fmt.Errorf("kv: InnerQ tables of %d layers, but the model has %d", len(s.Equalised), len(layers))
	}
	for i, heads := range s.Equalised {
		if heads == nil {
			continue
		}
		if len(heads) != layers[i].KVHeads {
			return fmt.Errorf("kv: InnerQ tables of %d KV heads in layer %d, but the model has %d", len(heads), i, layers[i].KVHeads)
		}
		for h := range heads {
			if !heads[h].Fits(layers[i].HeadDimK) {
				return fmt.Errorf("kv: layer %d head %d: the InnerQ table has %d channels; %d finite ones are required", i, h, len(heads[h].Gain), layers[i].HeadDimK)
			}
		}
	}
	return nil
}
