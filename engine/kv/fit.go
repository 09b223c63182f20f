package kv

import "fmt"

// Fit is what a type becomes at a head size on one side.
type Fit struct {
	Type     *Type  // the type itself or its replacement
	Form     *Type  // the form of Type at this head size
	Reason   string // why Type is another type, or the head is padded; empty for neither
	Replaced bool   // the head does not fit, rather than the name standing for another one
	Warn     bool   // the reason is worth a warning
}

// because adds a reason.
func (f *Fit) because(warn bool, format string, args ...any) {
	if f.Reason != "" {
		f.Reason += "; "
	}
	f.Reason += fmt.Sprintf(format, args...)
	f.Warn = f.Warn || warn
}

// replace sets another type because the head does not fit.
func (f *Fit) replace(name, format string, args ...any) {
	f.Type, f.Replaced = named(name), true
	f.because(true, format, args...)
}

// Fit returns the form that supports heads of headDim values, by the rules in the
// literals. Source: spec kv-formats.md sections 6 and 8.
func (t *Type) Fit(headDim int, s Side) Fit {
	f := Fit{Type: t}
	for f.step(headDim, s) {
	}
	f.Form = f.Type.Form(headDim, s)
	return f
}

// step applies one rule. It returns false after the last one.
func (f *Fit) step(dim int, s Side) bool {
	t := f.Type
	other := t.Heads.K
	if s == V {
		other = t.Heads.V
	}
	switch {
	case other != "" && t.Heads.Same:
		f.Type = named(other)
		f.because(false, "%s for %v means %s", t.Name, s, other)
	case other != "":
		f.replace(other, "%s is not for %v", t.Name, s)
	case t.Heads.As != "":
		if t.Heads.Old {
			f.because(true, "%s is deprecated, %s chooses the form", t.Name, t.Heads.As)
		}
		f.Type = named(t.Heads.As)
	case t.Heads.By != nil:
		if name := t.Heads.By[dim][s]; name != "" {
			f.Type = named(name)
			f.because(false, "head %d", dim)
			return false
		}
		f.replace(t.Heads.Else, "%s has no form for a head of %d", t.Name, dim)
	case !t.holds(dim):
		f.replace(t.Heads.Else, "%s %s, not %d", t.Name, t.sizes(), dim)
	default:
		if n := t.Form(dim, s).Padded(dim); n != dim {
			if as := noSaving(t.Form(dim, s), dim); as != nil {
				f.because(true, "head %d padded to %d, which takes as much as %s", dim, n, as.Name)
			} else {
				f.because(false, "head %d padded to %d", dim, n)
			}
		}
		return false
	}
	return true
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
