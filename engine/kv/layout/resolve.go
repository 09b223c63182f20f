package layout

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"

	"godwit/engine/kv"
)

// ErrStrict is the class of errors that Settings.Strict causes because a choice
// would change.
var ErrStrict = errors.New("kv: strict")

// Limits that keep hostile models from causing huge allocations.
const (
	maxKVHeads = 1 << 12
	MaxCells   = 1<<31 - kv.PageCells
	maxSeqs    = 1 << 16

	maxCheckpoints = 1 << 16
)

// resolver is one run of Resolve.
type resolver struct {
	layers  []LayerInfo
	set     Settings
	want    Want
	k, v    choice // types after the rules for the whole model
	policy  policy
	bypass  bool
	each    []Want      // types by layer; nil for the same everywhere
	why     [][2]string // reasons by layer
	logged  bool        // the head-size signals have been logged
	changes changes
	exact   exactForms
	newest  int // smallest exact window with a budget; 0 if nothing is packed
	out     Layout
}

// choice is a type in transition from the request to what is stored.
type choice struct {
	t       *kv.Type
	reason  string
	changed bool // a rule rather than the user replaced the type
	level   slog.Level
}

// because adds a reason and sets the minimum level of the log line.
func (c *choice) because(level slog.Level, format string, args ...any) {
	if c.reason != "" {
		c.reason += "; "
	}
	c.reason += fmt.Sprintf(format, args...)
	c.level = max(c.level, level)
}

// replace sets another type because of a rule.
func (c *choice) replace(t *kv.Type, format string, args ...any) {
	c.t, c.changed = t, true
	c.because(slog.LevelWarn, format, args...)
}

// Resolve decides what every layer stores: its types, its bytes and its page pools.
// The rules for types, and the order of the rules, are the spec's. Resolve is pure, so
// the same arguments give the same layout. Layers come in model order. Source: spec
// kv-policies.md; kv-formats.md section 8.
func Resolve(want Want, layers []LayerInfo, s Settings) (Layout, error) {
	if want.K == nil {
		want.K = kv.F16
	}
	if want.V == nil {
		want.V = kv.F16
	}
	if s.Cells < 0 || s.Cells > MaxCells {
		return Layout{}, fmt.Errorf("kv: %d cells; 0 to %d are possible", s.Cells, MaxCells)
	}
	if s.Seqs < 0 || s.Seqs > maxSeqs || s.UBatch < 0 || s.UBatch > MaxCells {
		return Layout{}, fmt.Errorf("kv: %d sequences and %d rows a run; at most %d and %d are possible", s.Seqs, s.UBatch, maxSeqs, MaxCells)
	}
	if err := errors.Join(s.checkWindow(), s.InnerQ.check(), s.checkEqualised(layers)); err != nil {
		return Layout{}, err
	}
	if s.Span == 0 {
		s.Span = s.Cells
	}
	r := resolver{layers: slices.Clone(layers), set: s, want: want, k: choice{t: want.K}, v: choice{t: want.V}}
	r.out = Layout{Want: want, Settings: s}
	for i := range layers {
		if err := r.check(i); err != nil {
			return Layout{}, err
		}
	}
	if c := s.Calibration; c != nil {
		if err := c.Check(c.Model, layers); err != nil {
			return Layout{}, err
		}
	}
	if err := r.share(); err != nil {
		return Layout{}, err
	}
	if s.Each != nil {
		if len(s.Each) != len(layers) {
			return Layout{}, fmt.Errorf("kv: types for %d layers, but the model has %d", len(s.Each), len(layers))
		}
		r.each = s.Each
	}
	r.raiseK()
	if err := r.setPolicy(); err != nil {
		return Layout{}, err
	}
	r.setBypass()
	ordinal := 0
	for i := range r.layers {
		y, err := r.layer(&r.layers[i], ordinal)
		if err != nil {
			return Layout{}, err
		}
		if r.layers[i].owns() {
			ordinal++
		}
		r.out.Layers = append(r.out.Layers, y)
	}
	r.group()
	if err := r.budget(); err != nil {
		return Layout{}, err
	}
	r.changes.events(&r.out)
	r.out.resize(s.Cells)
	if r.out.Bytes() == math.MaxInt64 {
		return Layout{}, fmt.Errorf("kv: %d cells of this model take more bytes than can be counted", s.Cells)
	}
	return r.out, nil
}

// owns reports whether the layer has a cache of its own.
func (in *LayerInfo) owns() bool { return in.Cached && in.Share < 0 }

// check sets head sizes by the cascade, ignores a window larger than any context,
// and rejects impossible values.
func (r *resolver) check(i int) error {
	in := &r.layers[i]
	if !in.Cached {
		return nil
	}
	if in.Window >= MaxCells {
		in.Window = 0
	}
	if in.Share >= 0 {
		if in.Share >= i || !r.layers[in.Share].owns() {
			return fmt.Errorf("kv: layer %d reads the cache of layer %d, which has none before it", in.Layer, in.Share)
		}
		if o := &r.layers[in.Share]; o.HeadDimK != in.HeadDimK || o.HeadDimV != in.HeadDimV || o.KVHeads != in.KVHeads {
			return fmt.Errorf("kv: layer %d reads the cache of layer %d, which has another shape", in.Layer, in.Share)
		}
	}
	if err := r.signals(in); err != nil {
		return err
	}
	switch {
	case in.HeadDimK < 1 || in.HeadDimK > kv.MaxHeadDim || in.HeadDimV < 1 || in.HeadDimV > kv.MaxHeadDim:
		return fmt.Errorf("%w: layer %d has heads of %d and %d values; 1 to %d are possible", kv.ErrHead, in.Layer, in.HeadDimK, in.HeadDimV, kv.MaxHeadDim)
	case in.MLA && in.HeadDimV > in.HeadDimK:
		return fmt.Errorf("%w: layer %d reads %d values of V out of %d of K", kv.ErrHead, in.Layer, in.HeadDimV, in.HeadDimK)
	case in.KVHeads < 1 || in.KVHeads > maxKVHeads:
		return fmt.Errorf("kv: layer %d has %d KV heads; 1 to %d are possible", in.Layer, in.KVHeads, maxKVHeads)
	case in.Window < 0:
		return fmt.Errorf("kv: layer %d has a window of %d; it must not be negative", in.Layer, in.Window)
	}
	return nil
}

// setBypass decides whether sliding-window layers keep f16.
func (r *resolver) setBypass() {
	switch r.set.SWABypass {
	case On:
		r.bypass = true
	case Auto:
		r.bypass = r.want.K.Rules.BypassSWA || r.want.V.Rules.BypassSWA
	}
}

// layer resolves one layer; ordinal counts the earlier layers with a cache of
// their own.
func (r *resolver) layer(in *LayerInfo, ordinal int) (Layer, error) {
	y := Layer{
		Layer: in.Layer, Heads: in.Heads, KVHeads: in.KVHeads, Group: -1, Share: -1, Window: in.Window,
		MLA: in.MLA, RopeBase: in.RopeBase, Rotary: in.Rotary, StateBytes: in.StateBytes,
	}
	if !in.Cached {
		return y, nil
	}
	if in.Share >= 0 {
		o := &r.out.Layers[in.Share]
		o.Lends = true
		y.Share, y.Temper, y.K, y.V, y.Exact = in.Share, o.Temper, o.K, o.V, o.Exact
		for _, s := range []*Side{&y.K, &y.V} {
			s.RowBytes, s.ExactRow, s.PinnedRow, s.SelfRow, s.SelfBytes = 0, 0, 0, 0, 0
			s.Reason = fmt.Sprintf("reads the cache of layer %d", o.Layer)
		}
		return y, nil
	}
	k, v := r.k, r.v
	r.chosen(&k, &v)
	r.policy.apply(&k, &v, in, ordinal)
	if r.bypass && in.Window > 0 {
		for _, c := range []*choice{&k, &v} {
			if !c.t.Float {
				c.t, c.changed = kv.F16, true
				c.because(slog.LevelInfo, "layer with a window of %d", in.Window)
			}
		}
	}
	measured := false
	if s := &r.set; s.Uncalibrated && s.Calibration == nil && k.t.Form(in.HeadDimK, kv.K).Normalised && !in.MLA {
		if measured = r.self(in); measured {
			k.because(slog.LevelInfo, "calibrated by each conversation on its first %d tokens", SelfRows)
		} else {
			k.replace(kv.Q8_0, "%s keys need a calibration of the model, which is missing", k.t.Name)
		}
	}
	fitBoth(&k, &v, in)
	y.K = sideLayout(r.want.K, &k, in.HeadDimK, in.KVHeads, kv.K)
	if in.MLA {
		y.V = viewLayout(r.want.V, &y.K, in.HeadDimV)
	} else {
		y.V = sideLayout(r.want.V, &v, in.HeadDimV, in.KVHeads, kv.V)
	}
	if measured {
		y.K.SelfCalibrated, y.K.SelfRow, y.K.SelfBytes = true, selfRow(in.HeadDimK)*in.KVHeads, selfBytes(in.HeadDimK)*in.KVHeads
	}
	r.window(&y, in, k.t, v.t)
	if c := r.set.Calibration; c != nil {
		l := &c.Layers[len(r.out.Layers)]
		y.K.Sense, y.V.Sense = l.SenseK, l.SenseV
		if y.K.Active.Normalised && !in.MLA {
			y.K.Channels = l.channels(in.Rotary, r.set.Span)
		}
	}
	r.equalise(&y)
	if r.set.Temperature != Off {
		y.Temper = y.K.Active.Temper
	}
	r.changes.note(in.Layer, kv.K, r.want.K, &k, &y.K)
	if !in.MLA {
		r.changes.note(in.Layer, kv.V, r.want.V, &v, &y.V)
	}
	if r.set.Strict {
		if err := strict(in.Layer, kv.K, r.want.K, &k); err != nil {
			return y, err
		}
		if err := strict(in.Layer, kv.V, r.want.V, &v); err != nil && !in.MLA {
			return y, err
		}
	}
	return y, nil
}

// fit replaces c by a type that supports heads of dim values.
func (c *choice) fit(dim int, s kv.Side) {
	f := c.t.Fit(dim, s)
	c.t, c.changed = f.Type, c.changed || f.Replaced
	level := slog.LevelInfo
	if f.Warn {
		level = slog.LevelWarn
	}
	if f.Reason != "" {
		c.because(level, "%s", f.Reason)
	}
}

// fitBoth replaces both sides by forms that support the heads of a layer; with
// MLA only K is stored.
func fitBoth(k, v *choice, in *LayerInfo) {
	k.fit(in.HeadDimK, kv.K)
	if in.MLA {
		if k.t.Rules.PacksRotary {
			k.because(slog.LevelInfo, "the rotary values of latent attention are packed too")
		}
		return
	}
	if as := k.t.Rules.WideHeadV; as != nil && in.HeadDimV == 512 && !v.t.Rules.Wide {
		v.replace(as, "beside a %s K a head of 512 keeps V in %s", k.t.Name, as.Name)
	}
	v.fit(in.HeadDimV, kv.V)
}

// chosen sets the types that were chosen for the current layer.
func (r *resolver) chosen(k, v *choice) {
	i := len(r.out.Layers)
	if r.each == nil {
		return
	}
	for s, c := range []*choice{kv.K: k, kv.V: v} {
		t := r.each[i].K
		if kv.Side(s) == kv.V {
			t = r.each[i].V
		}
		if t == nil {
			continue
		}
		c.t = t
		if r.why != nil && r.why[i][s] != "" {
			c.because(slog.LevelDebug, "%s", r.why[i][s])
		}
	}
}

func strict(layer int, s kv.Side, want *kv.Type, c *choice) error {
	if !c.changed || c.t == want {
		return nil
	}
	return fmt.Errorf("%w: layer %d: %v %s -> %s (%s)", ErrStrict, layer, s, want.Name, c.t.Name, c.reason)
}

// sideLayout computes the sizes of a choice.
func sideLayout(want *kv.Type, c *choice, dim, heads int, s kv.Side) Side {
	t := c.t.Form(dim, s)
	y := Side{
		Wanted: want, Active: t, Reason: c.reason, HeadDim: dim, Padded: t.Padded(dim),
		HeadBytes: t.RowBytes(dim), Segments: t.Segments(dim),
	}
	y.RowBytes = y.HeadBytes * heads
	return y
}

// viewLayout is the layout of a V that consists of the first dim values of K.
func viewLayout(want *kv.Type, k *Side, dim int) Side {
	y := Side{Wanted: want, Active: k.Active, HeadDim: dim, HeadBytes: k.HeadBytes, View: true}
	y.Reason = fmt.Sprintf("the first %d values of K, no cells of its own", dim)
	for _, g := range k.Segments {
		if g.First >= dim {
			break
		}
		g.Dim = min(g.Dim, dim-g.First)
		g.Blocks = g.Form.Padded(g.Dim) / g.Form.Elems
		y.Segments = append(y.Segments, g)
		y.Padded = g.Lane + g.Form.Padded(g.Dim)
	}
	return y
}

// group collects the layers with cells of their own by window and exact window,
// in order of appearance.
func (r *resolver) group() {
	l := &r.out
	type key struct {
		window int
		exact  Window
	}
	byWindow := map[key]int{}
	for i := range l.Layers {
		y := &l.Layers[i]
		switch {
		case !r.layers[i].Cached:
		case y.Share >= 0:
			y.Group = l.Layers[y.Share].Group
		default:
			g, ok := byWindow[key{y.Window, y.Exact}]
			if !ok {
				g = len(l.Groups)
				byWindow[key{y.Window, y.Exact}] = g
				l.Groups = append(l.Groups, Group{Window: y.Window, Exact: y.Exact})
			}
			l.Groups[g].Layers = append(l.Groups[g].Layers, i)
			l.Groups[g].PackedByPage = l.Groups[g].PackedByPage || y.K.PackedByPage() || y.V.PackedByPage()
			l.Groups[g].SelfCalibrated = l.Groups[g].SelfCalibrated || y.K.SelfCalibrated
			y.Group = g
		}
	}
}
