package layout

import (
	"fmt"
	"log/slog"
	"math"

	"godwit/engine/kv"
)

// ladder lists the types that AutoBits allocates, one more bit per step.
func ladder() []*kv.Type { return []*kv.Type{kv.GW2, kv.GW3, kv.GW4} }

// AutoRange returns the smallest and the largest Settings.AutoBits.
func AutoRange() (least, most float64) {
	l := ladder()
	return float64(l[0].CodeBits()), float64(l[len(l)-1].CodeBits())
}

// Probe returns the types with which the sensitivity of a cache is measured:
// the smallest type on one side of one layer, f16 everywhere else.
func Probe(layers []LayerInfo, layer int, s kv.Side) []Want {
	each := make([]Want, len(layers))
	for i := range each {
		each[i] = Want{kv.F16, kv.F16}
	}
	if s == kv.V {
		each[layer].V = ladder()[0]
	} else {
		each[layer].K = ladder()[0]
	}
	return each
}

// cacheShare is one cache during the allocation of bits.
type cacheShare struct {
	layer  int
	side   kv.Side
	values int     // values per token
	sense  float64 // sensitivity: divergence at the fewest bits
	step   int     // index in the ladder
}

// gain rates one more bit for this cache. Every bit divides the error by four,
// so the gain is proportional to the error that is left.
func (c *cacheShare) gain() float64 { return c.sense * math.Pow(4, -float64(c.step)) }

// autoShares gives every cache the fewest bits. It then adds one bit at a time,
// always to the cache that gains most, until the average is reached. Source:
// spec gw-formats.md "Auto rule".
func autoShares(c *Calibration, layers []LayerInfo, bits float64) []cacheShare {
	var list []cacheShare
	values := 0
	for i := range layers {
		in := &layers[i]
		if !in.owns() {
			continue
		}
		l := &c.Layers[i]
		list = append(list, cacheShare{layer: i, side: kv.K, values: in.KVHeads * in.HeadDimK, sense: l.SenseK})
		if !in.MLA {
			list = append(list, cacheShare{layer: i, side: kv.V, values: in.KVHeads * in.HeadDimV, sense: l.SenseV})
		}
	}
	for i := range list {
		values += list[i].values
	}
	least, _ := AutoRange()
	left := (bits-least)*float64(values) + 0.5 // plus half a bit of one value for rounding
	for {
		best := -1
		for i := range list {
			if list[i].step < len(ladder())-1 && (best < 0 || list[i].gain() > list[best].gain()) {
				best = i
			}
		}
		if best < 0 || float64(list[best].values) > left {
			return list
		}
		left -= float64(list[best].values)
		list[best].step++
	}
}

// share decides the type of every cache under AutoBits.
func (r *resolver) share() error {
	bits := r.set.AutoBits
	if bits == 0 {
		return nil
	}
	least, most := AutoRange()
	if !(bits >= least && bits <= most) {
		return fmt.Errorf("kv: %g bits per value on average; %g to %g are possible", bits, least, most)
	}
	l := ladder()
	near := l[int(math.Round(bits-least))]
	r.want, r.out.Want = Want{near, near}, Want{near, near}
	r.k.t, r.v.t = near, near
	if c := r.set.Calibration; c == nil || !c.Sensed() {
		when := "the first load measures it; to measure now, run"
		switch {
		case r.set.CalibratedLater:
			when = "it is being measured in the background, for the next load; to measure now, run"
		case r.set.Uncalibrated:
			when = "loads measure nothing because kv_calibrate is off; to measure, run"
		}
		r.event(slog.LevelWarn, fmt.Sprintf("kv: every cache gets %s: the sensitivity of the caches has not been measured; %s godwit kv calibrate MODEL", near.Name, when))
		return nil
	}
	r.each = make([]Want, len(r.layers))
	r.why = make([][2]string, len(r.layers))
	for _, s := range autoShares(r.set.Calibration, r.layers, bits) {
		w := &r.each[s.layer]
		if s.side == kv.V {
			w.V = l[s.step]
		} else {
			w.K = l[s.step]
		}
		r.why[s.layer][s.side] = fmt.Sprintf("%g bits per value on average, allocated by sensitivity", bits)
	}
	return nil
}
