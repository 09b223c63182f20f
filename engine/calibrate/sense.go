package calibrate

import (
	"context"
	"errors"
	"math"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/sched"
)

// sense measures the sensitivity of the caches: the model's divergence from f16 with one cache at
// the fewest bits and all others in f16. It continues from the results of an earlier run.
func (c *run) sense(ctx context.Context, out *layout.Calibration, old *partial, progress func(float64) error) error {
	caches := measuredCaches(c.layers)
	var known []float64
	if old != nil && old.whole != nil && len(old.Sense) <= len(caches) {
		known = old.Sense
	}
	set := func(n int, v float64) {
		l := &out.Layers[caches[n].layer]
		if caches[n].side == kv.V {
			l.SenseV = v
		} else {
			l.SenseK = v
		}
	}
	for n, v := range known {
		set(n, v)
	}
	if len(known) > 0 {
		c.Log.Info("calibration resumed", "layer", caches[len(known)-1].layer)
	}
	if len(known) == len(caches) {
		return progress(1)
	}
	b, err := cpu.Driver{}.Open(0, backend.Options{Threads: c.Threads, NoRepack: c.NoRepack})
	if err != nil {
		return err
	}
	err = c.try(ctx, b, len(c.talk), c.Rows, layout.Settings{}, func(t *trial) error {
		base, err := c.logits(t)
		for n := len(known); n < len(caches) && err == nil; n++ {
			if err = progress(float64(n+1) / float64(len(caches)+1)); err != nil {
				return err
			}
			var v float64
			if v, err = c.senseOf(ctx, b, out, caches[n], base); err == nil {
				set(n, v)
				known = append(known, v)
				c.keep(&partial{whole: withoutSense(out), Sense: known}, nil)
			}
		}
		return err
	})
	return errors.Join(err, b.Close())
}

// measuredCache is one side of a layer.
type measuredCache struct {
	layer int
	side  kv.Side
}

func measuredCaches(layers []layout.LayerInfo) []measuredCache {
	var list []measuredCache
	for i := range layers {
		if in := &layers[i]; in.Cached && in.Share < 0 {
			list = append(list, measuredCache{i, kv.K})
			if !in.MLA {
				list = append(list, measuredCache{i, kv.V})
			}
		}
	}
	return list
}

// senseOf returns the divergence from base with one cache at the fewest bits.
func (c *run) senseOf(ctx context.Context, b backend.Backend, out *layout.Calibration, of measuredCache, base []float32) (v float64, err error) {
	set := layout.Settings{Calibration: out, Span: layout.Span(c.Config.Context), Each: layout.Probe(c.layers, of.layer, of.side), SWABypass: layout.Off, AutoAsymmetric: layout.Off}
	err = c.try(ctx, b, len(c.talk), c.Rows, set, func(t *trial) error {
		got, err := c.logits(t)
		if err == nil {
			v, err = meanKL(base, got, c.Config.Vocab)
		}
		return err
	})
	return v, err
}

// withoutSense returns a copy of a calibration without sensitivities.
func withoutSense(c *layout.Calibration) *layout.Calibration {
	out := *c
	out.Layers = slices.Clone(c.Layers)
	for i := range out.Layers {
		out.Layers[i].SenseK, out.Layers[i].SenseV = 0, 0
	}
	return &out
}

// logits returns the predictions to compare, at every second position near the
// end.
func (c *run) logits(t *trial) ([]float32, error) {
	tokens := c.talk
	var out []float32
	c.Work.Runs++
	first := max(len(tokens)-2*senseRows, len(tokens)/2)
	err := t.run(sched.Job{
		Prompt: tokens, Fresh: true,
		Want: func(pos int) bool { return pos >= first && (len(tokens)-1-pos)%2 == 0 },
		Row: func(_ int, row []float32) error {
			out = append(out, row...)
			return nil
		},
	})
	return out, err
}

// ErrNotFinite is returned, together with the channels, if the model predicts NaN or infinite
// values. The caches cannot be compared then.
var ErrNotFinite = errors.New("the model's predictions are not finite")

// meanKL returns the mean of KL(a || b) over rows of logits, in nats.
func meanKL(a, b []float32, vocab int) (float64, error) {
	var total float64
	rows := len(a) / vocab
	for r := range rows {
		p, q := a[r*vocab:(r+1)*vocab], b[r*vocab:(r+1)*vocab]
		zp, zq := logSum(p), logSum(q)
		for i := range p {
			lp := float64(p[i]) - zp
			if w := math.Exp(lp); w > 0 {
				total += w * (lp - float64(q[i]) + zq)
			}
		}
	}
	total /= float64(max(rows, 1))
	if math.IsNaN(total) || math.IsInf(total, 0) {
		return 0, ErrNotFinite
	}
	return max(total, 0), nil
}

// logSum returns log Σ e^x.
func logSum(x []float32) float64 {
	top := float64(slices.Max(x))
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}
