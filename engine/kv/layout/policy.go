package layout

import (
	"fmt"
	"log/slog"

	"godwit/engine/kv"
)

// policy is the active layer policy.
type policy struct {
	mode    int
	auto    bool // switched on automatically
	byLayer bool // all layers count, not only those with a cache
	n       int  // number of caches, or of layers
	k, v    bool // policies applied to K and V when the policy was set
}

// raiseK is the automatic rule for many query heads per KV head: K becomes q8_0 if
// it is a turbo type and the same type as V. Source: spec kv-policies.md section 3.
func (r *resolver) raiseK() {
	t := r.want.K
	if r.set.AutoAsymmetric == Off || !t.Rules.Asymmetric || t != r.want.V {
		return
	}
	most, heads, kvHeads := 0, 0, 0
	for i := range r.layers {
		in := &r.layers[i]
		if ratio := in.Heads / max(in.KVHeads, 1); in.owns() && ratio > most {
			most, heads, kvHeads = ratio, in.Heads, in.KVHeads
		}
	}
	if most >= 6 {
		r.k.replace(kv.Q8_0, "%d query heads for each KV head, %d of %d; opt out: TURBO_AUTO_ASYMMETRIC=0", most, heads, kvHeads)
	}
}

// setPolicy decides the layer policy. Source: spec kv-policies.md section 1.
func (r *resolver) setPolicy() error {
	p := &r.policy
	switch r.set.BoundaryBy {
	case "", "cache":
	case "layer":
		p.byLayer = true
	default:
		return fmt.Errorf("kv: boundary by %q; cache and layer are possible", r.set.BoundaryBy)
	}
	views := true
	for i := range r.layers {
		if r.layers[i].owns() {
			p.n++
			views = views && r.layers[i].MLA
		}
	}
	if p.byLayer {
		p.n = len(r.layers)
	}
	p.k, p.v = r.k.t.Rules.Boundary, r.v.t.Rules.Boundary && !views
	if r.set.Policy == nil {
		if p.auto = p.v && r.v.t.Rules.AutoBoundary && p.n >= 8; p.auto {
			p.mode = 7
			r.event(slog.LevelInfo, "kv: boundary V switched on for "+r.v.t.Name+" V (opt out: TURBO_LAYER_ADAPTIVE=0)")
		}
	} else {
		p.mode = *r.set.Policy
	}
	if why := p.idle(); why != "" {
		r.event(slog.LevelInfo, fmt.Sprintf("kv: layer policy %d does nothing: %s", p.mode, why))
		p.mode = 0
	}
	if p.mode != 0 {
		r.event(slog.LevelInfo, fmt.Sprintf("kv: layer policy %d (%s)", p.mode, p.describe()))
	}
	r.out.Policy = p.mode
	return nil
}

func (r *resolver) event(level slog.Level, text string) {
	r.out.Events = append(r.out.Events, Event{Level: level, Text: text})
}

// idle returns why a mode has no effect, or "" for mode 0 and for modes that have
// one.
func (p *policy) idle() string {
	switch m := p.mode; {
	case m == 0:
		return ""
	case m < 0 || m > 7 || m == 3 || m == 4:
		return "no such policy"
	case p.n < 8:
		return fmt.Sprintf("%d %s, 8 needed", p.n, p.unit())
	case m <= 2 && !p.k:
		return "K is not turbo"
	case m >= 5 && !p.v:
		return "V is not turbo"
	}
	return ""
}

func (p *policy) unit() string {
	if p.byLayer {
		return "layers"
	}
	return "caches"
}

func (p *policy) describe() string {
	switch p.mode {
	case 1:
		return fmt.Sprintf("first 4 and last 4 of %d %s K=q8_0 and V=q8_0", p.n, p.unit())
	case 2:
		return fmt.Sprintf("last 8 of %d %s K=q8_0 and V=q8_0", p.n, p.unit())
	case 5:
		return fmt.Sprintf("first 2 and last 2 of %d %s V=turbo4, others V=turbo2", p.n, p.unit())
	case 6:
		return fmt.Sprintf("last 8 of %d %s V=turbo4, others V=turbo2", p.n, p.unit())
	}
	return fmt.Sprintf("boundary V: first 2 and last 2 of %d %s V=q8_0, others V=turbo2", p.n, p.unit())
}

// apply changes the choices of one layer. ordinal is the index among the caches.
func (p *policy) apply(k, v *choice, in *LayerInfo, ordinal int) {
	i := ordinal
	if p.byLayer {
		i = in.Layer
	}
	ends := func(n int) bool { return i < n || i >= p.n-n }
	last := i >= p.n-8
	switch p.mode {
	case 1:
		p.both(k, v, ends(4))
	case 2:
		p.both(k, v, last)
	case 5:
		p.value(v, ends(2), kv.Turbo4)
	case 6:
		p.value(v, last, kv.Turbo4)
	case 7:
		p.value(v, ends(2), kv.Q8_0)
	}
}

func (p *policy) both(k, v *choice, edge bool) {
	if edge {
		p.set(k, kv.Q8_0)
		p.set(v, kv.Q8_0)
	}
}

func (p *policy) value(v *choice, edge bool, t *kv.Type) {
	if !edge {
		t = kv.Turbo2
	}
	p.set(v, t)
}

// set replaces the type of c. A mode set by the user counts as the user's choice,
// and the automatic mode as a change.
func (p *policy) set(c *choice, t *kv.Type) {
	if c.t == t {
		return
	}
	c.t = t
	c.changed = c.changed || p.auto
	c.because(slog.LevelInfo, "layer policy %d", p.mode)
}
