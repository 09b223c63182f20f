package jinja

// globals holds the functions that every template can call.
var globals = func() *scope {
	sc := &scope{}
	for _, f := range []struct {
		name string
		call func(*state, *args) (Value, error)
	}{
		{"range", rangeFunc},
		{"dict", dictFunc},
		{"namespace", namespaceFunc},
		{"cycler", cyclerFunc},
		{"joiner", joinerFunc},
		{"raise_exception", raiseFunc},
		{"strftime_now", strftimeFunc},
	} {
		sc.set(f.name, &function{name: f.name, kind: "function", call: f.call})
	}
	return sc
}()

// rangeFunc is range(stop) or range(start, stop, step=1), at most 100,000 long.
func rangeFunc(_ *state, a *args) (Value, error) {
	o, err := a.positional("range", 1, 3)
	if err != nil {
		return nil, err
	}
	var n [3]int
	for i, v := range o {
		if v == nil {
			continue
		}
		if u, ok := v.(*undefined); ok {
			return nil, typeErr("'%s' object cannot be interpreted as an integer", u.pyType())
		}
		if _, big := v.(*bigInt); big {
			return nil, limitErr("a range beyond 2^40")
		}
		if n[i], err = wantInt(v); err != nil {
			return nil, err
		}
		if n[i] > 1<<40 || n[i] < -1<<40 {
			return nil, limitErr("a range beyond 2^40")
		}
	}
	r := &rangeValue{start: n[0], stop: n[1], step: n[2]}
	if o[1] == nil {
		r.start, r.stop = 0, n[0]
	}
	if o[2] == nil {
		r.step = 1
	}
	switch {
	case r.step == 0:
		return nil, valueErr("range() arg 3 must not be zero")
	case r.step > 0 && r.start < r.stop:
		r.n = (r.stop-r.start-1)/r.step + 1
	case r.step < 0 && r.start > r.stop:
		r.n = (r.start-r.stop-1)/-r.step + 1
	}
	if r.n > maxRange {
		return nil, limitErr("a range of %d elements, at most %d are allowed", r.n, maxRange)
	}
	return r, nil
}

// dictFunc is dict(mapping or pairs, **kwargs).
func dictFunc(st *state, a *args) (Value, error) {
	if len(a.pos) > 1 {
		return nil, typeErr("dict expected at most 1 argument, got %d", len(a.pos))
	}
	out := NewDict()
	if len(a.pos) == 1 {
		if src, ok := a.pos[0].(*Dict); ok {
			if err := st.alloc(48 * src.Len()); err != nil {
				return nil, err
			}
			out = src.Clone()
		} else if err := st.addPairs(out, a.pos[0]); err != nil {
			return nil, err
		}
	}
	for i, name := range a.names {
		if err := out.set(st, &Str{s: name}, a.named[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (st *state) addPairs(d *Dict, pairs Value) error {
	next, err := st.iterate(pairs)
	if err != nil {
		return err
	}
	for n := 0; ; n++ {
		item, ok, err := next()
		if err != nil || !ok {
			return err
		}
		pair, err := st.elements(item)
		if err != nil {
			return typeErr("cannot convert dictionary update sequence element #%d to a sequence", n)
		}
		if len(pair) != 2 {
			return valueErr("dictionary update sequence element #%d has length %d; 2 is required", n, len(pair))
		}
		if err := d.set(st, pair[0], pair[1]); err != nil {
			return err
		}
	}
}

func namespaceFunc(st *state, a *args) (Value, error) {
	d, err := dictFunc(st, a)
	if err != nil {
		return nil, err
	}
	return &namespace{d.(*Dict)}, nil
}

// cyclerFunc is cycler(*items): an object with next, current and reset.
func cyclerFunc(_ *state, a *args) (Value, error) {
	if err := a.noNames("cycler"); err != nil {
		return nil, err
	}
	if len(a.pos) == 0 {
		return nil, fail(ErrRuntime, "at least one item has to be provided")
	}
	at := 0
	out := &function{name: "cycler", kind: "Cycler", attr: map[string]Value{}}
	sync := func() { out.attr["current"] = a.pos[at] }
	sync()
	out.attr["next"] = method("next", func(*state, *args) (Value, error) {
		v := a.pos[at]
		at = (at + 1) % len(a.pos)
		sync()
		return v, nil
	})
	out.attr["reset"] = method("reset", func(*state, *args) (Value, error) {
		at = 0
		sync()
		return None, nil
	})
	return out, nil
}

// joinerFunc is joiner(sep=", "). It returns a function that gives "" at the first
// call and sep afterwards.
func joinerFunc(_ *state, a *args) (Value, error) {
	o, err := a.bind("joiner", 0, "sep")
	if err != nil {
		return nil, err
	}
	var sep Value = &Str{s: ", "}
	if o[0] != nil {
		sep = o[0]
	}
	used := false
	return &function{name: "joiner", kind: "Joiner", call: func(*state, *args) (Value, error) {
		if used {
			return sep, nil
		}
		used = true
		return &Str{}, nil
	}}, nil
}

func raiseFunc(st *state, a *args) (Value, error) {
	o, err := a.bind("raise_exception", 1, "message")
	if err != nil {
		return nil, err
	}
	s, err := st.str(o[0])
	if err != nil {
		return nil, err
	}
	return nil, &RaiseError{Msg: s.s}
}

func strftimeFunc(st *state, a *args) (Value, error) {
	o, err := a.bind("strftime_now", 1, "format")
	if err != nil {
		return nil, err
	}
	s, ok := o[0].(*Str)
	if !ok {
		return nil, typeErr("strftime() argument 1 must be str, not %s", o[0].pyType())
	}
	if err := st.alloc(4 * len(s.s)); err != nil {
		return nil, err
	}
	return taint(strftime(st.now, s.s), s), nil
}
