package jinja

import (
	"context"
	"time"
)

// Template is a parsed template. It is safe for concurrent rendering.
type Template struct {
	body   []stmt
	undef  []string // see symbols.go
	limits Limits
}

// Piece is a part of the rendered text. Special tokens may be recognised only
// inside adjacent trusted pieces.
type Piece struct {
	Text    string
	Trusted bool
}

// Options holds the inputs of a rendering in addition to its variables.
type Options struct {
	Now    time.Time // time that strftime_now uses
	Limits *Limits   // nil selects the template's limits
}

// Parse parses a template. It returns ErrSyntax with the line, or ErrLimit for a
// source of more than 4 MiB.
func Parse(source string, limits Limits) (*Template, error) {
	if len(source) > maxSource {
		return nil, limitErr("template of %d bytes, at most %d are allowed", len(source), maxSource)
	}
	toks, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks}
	body, _, err := p.body()
	if err != nil {
		return nil, err
	}
	var outside *symbols
	return &Template{body: body, undef: outside.scope(body, nil), limits: limits.withDefaults()}, nil
}

// Render renders the template with the given variables and does not change them.
// The error is a *RaiseError if the template refuses the input, an *Error, or the
// context's error.
func (t *Template) Render(ctx context.Context, vars *Dict, o Options) ([]Piece, error) {
	lim := t.limits
	if o.Limits != nil {
		lim = o.Limits.withDefaults()
	}
	st := &state{
		ctx: ctx, lim: lim, steps: lim.Steps, memory: lim.Memory,
		now: o.Now, vars: &scope{parent: globals},
	}
	st.out = &builder{st: st}
	for name, v := range vars.All() {
		v, err := st.clone(v, 0)
		if err != nil {
			return nil, err
		}
		st.vars.set(name, v)
	}
	for _, name := range t.undef {
		st.vars.set(name, undefinedName(name))
	}
	if _, err := st.run(t.body, st.vars); err != nil {
		return nil, err
	}
	if st.out.err != nil {
		return nil, st.out.err
	}
	return st.out.pieces(), nil
}

// Text joins pieces to the whole text.
func Text(pieces []Piece) string {
	n := 0
	for _, p := range pieces {
		n += len(p.Text)
	}
	buf := make([]byte, 0, n)
	for _, p := range pieces {
		buf = append(buf, p.Text...)
	}
	return string(buf)
}

// clone copies the lists and mappings of an input value, so that templates cannot
// change the caller's lists.
func (st *state) clone(v Value, depth int) (Value, error) {
	if depth > maxNest {
		return nil, limitErr("input nested deeper than %d", maxNest)
	}
	if err := st.charge(1); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *List:
		items, err := st.list(len(v.items))
		for _, item := range v.items {
			if err != nil {
				return nil, err
			}
			item, err = st.clone(item, depth+1)
			items = append(items, item)
		}
		return &List{items}, err
	case *Dict:
		out := v.Clone()
		for i := range out.entries {
			val, err := st.clone(out.entries[i].val, depth+1)
			if err != nil {
				return nil, err
			}
			out.entries[i].val = val
		}
		return out, nil
	case nil:
		return None, nil
	}
	return v, nil
}
