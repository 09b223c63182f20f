package kv

import "log/slog"

// fit replaces c by a form that supports heads of dim values, by the rules in the
// literals. Source: spec kv-formats.md sections 6 and 8.
func fit(c *choice, dim int, s Side) {
	for {
		t := c.t
		other := t.Heads.K
		if s == V {
			other = t.Heads.V
		}
		switch {
		case other != "" && t.Heads.Same:
			c.t = named(other)
			c.because(slog.LevelInfo, "%s for %v means %s", t.Name, s, other)
		case other != "":
			c.replace(named(other), "%s is not for %v", t.Name, s)
		case t.Heads.As != "":
			if t.Heads.Old {
				c.because(slog.LevelWarn, "%s is deprecated, %s chooses the form", t.Name, t.Heads.As)
			}
			c.t = named(t.Heads.As)
		case t.Heads.By != nil:
			if name := t.Heads.By[dim][s]; name != "" {
				c.t = named(name)
				c.because(slog.LevelInfo, "head %d", dim)
				return
			}
			c.replace(named(t.Heads.Else), "%s has no form for a head of %d", t.Name, dim)
		case !t.holds(dim):
			c.replace(named(t.Heads.Else), "%s %s, not %d", t.Name, t.sizes(), dim)
		default:
			if n := t.Form(dim, s).Padded(dim); n != dim {
				if as := noSaving(t.Form(dim, s), dim); as != nil {
					c.because(slog.LevelWarn, "head %d padded to %d, which takes as much as %s", dim, n, as.Name)
				} else {
					c.because(slog.LevelInfo, "head %d padded to %d", dim, n)
				}
			}
			return
		}
	}
}

// noSaving returns the plain type that stores a head of dim values in no more
// memory than t with padding, or nil if t saves memory.
func noSaving(t *Type, dim int) *Type {
	const about = 0.95
	row := float64(t.RowBytes(dim))
	switch {
	case t.Float:
	case row >= about*float64(F16.RowBytes(dim)):
		return F16
	case Q8_0.holds(dim) && t != Q8_0 && row >= about*float64(Q8_0.RowBytes(dim)):
		return Q8_0
	}
	return nil
}
