package jinja

// run executes statements in a scope until all have run, one leaves the loop, or
// one fails.
func (st *state) run(body []stmt, sc *scope) (flow, error) {
	for _, s := range body {
		if err := st.enter(); err != nil {
			return flowNext, atLine(err, s.at())
		}
		f, err := s.exec(st, sc)
		st.depth--
		if err != nil {
			return flowNext, atLine(err, s.at())
		}
		if f != flowNext {
			return f, nil
		}
	}
	return flowNext, nil
}

// print writes a string to the output.
func (st *state) print(s *Str) error {
	st.out.add(s)
	if st.out.err == nil && len(st.out.buf) > st.lim.Output {
		st.out.err = limitErr("more than %d bytes of output", st.lim.Output)
	}
	return st.out.err
}

func (s *dataStmt) exec(st *state, _ *scope) (flow, error) {
	return flowNext, st.print(&Str{s: s.text})
}

func (s *printStmt) exec(st *state, sc *scope) (flow, error) {
	v, err := st.eval(s.x, sc)
	if err != nil {
		return flowNext, err
	}
	text, err := st.str(v)
	if err != nil {
		return flowNext, err
	}
	return flowNext, st.print(text)
}

func (s *doStmt) exec(st *state, sc *scope) (flow, error) {
	_, err := st.eval(s.x, sc)
	return flowNext, err
}

func (s *flowStmt) exec(*state, *scope) (flow, error) { return s.flow, nil }

func (s *ifStmt) exec(st *state, sc *scope) (flow, error) {
	for i, test := range s.tests {
		v, err := st.eval(test, sc)
		if err != nil {
			return flowNext, err
		}
		if truth(v) {
			return st.run(s.bodies[i], sc)
		}
	}
	return st.run(s.other, sc)
}

func (s *setStmt) exec(st *state, sc *scope) (flow, error) {
	if err := s.target.check(sc); err != nil {
		return flowNext, err
	}
	v, err := st.eval(s.x, sc)
	if err != nil {
		return flowNext, err
	}
	return flowNext, st.assign(s.target, v, sc)
}

func (s *setBlockStmt) exec(st *state, sc *scope) (flow, error) {
	inner := sc.child(s.undef...)
	var f flow
	text, err := st.capture(func() (err error) {
		f, err = st.run(s.body, inner)
		return err
	})
	if err != nil || f != flowNext {
		return f, err
	}
	var v Value = text
	if s.filter != nil {
		if v, err = st.filterText(s.filter, text, inner); err != nil {
			return flowNext, err
		}
	}
	if err := s.target.check(sc); err != nil {
		return flowNext, err
	}
	return flowNext, st.assign(s.target, v, sc)
}

func (s *filterStmt) exec(st *state, sc *scope) (flow, error) {
	inner := sc.child(s.undef...)
	var f flow
	text, err := st.capture(func() (err error) {
		f, err = st.run(s.body, inner)
		return err
	})
	if err != nil || f != flowNext {
		return f, err
	}
	v, err := st.filterText(s.filter, text, inner)
	if err != nil {
		return flowNext, err
	}
	return flowNext, st.printOnly(v)
}

// printOnly prints the value of a filter or call block, which must be a string.
func (st *state) printOnly(v Value) error {
	s, ok := v.(*Str)
	if !ok {
		return typeErr("a block's result must be str, not %s", v.pyType())
	}
	return st.print(s)
}

// filterText applies a chain of filters to a block's text, which replaces the
// missing operand of the innermost filter.
func (st *state) filterText(x expr, text *Str, sc *scope) (Value, error) {
	inner := sc.child()
	inner.set(blockText, text)
	return st.eval(x, inner)
}

// the name contains a NUL byte, so no template can read or write this variable
const blockText = "\x00block"

func (s *withStmt) exec(st *state, sc *scope) (flow, error) {
	inner := sc.child(s.undef...)
	for i, x := range s.values {
		v, err := st.eval(x, sc)
		if err != nil {
			return flowNext, err
		}
		if err := st.assign(s.targets[i], v, inner); err != nil {
			return flowNext, err
		}
	}
	return st.run(s.body, inner)
}

func (s *scopeStmt) exec(st *state, _ *scope) (flow, error) {
	return st.run(s.body, st.vars.child(s.undef...))
}

func (s *generationStmt) exec(st *state, sc *scope) (flow, error) {
	v, err := (&macro{def: s.def, scope: sc}).call(st, &args{})
	if err != nil {
		return flowNext, err
	}
	return flowNext, st.printOnly(v)
}

func (s *macroStmt) exec(_ *state, sc *scope) (flow, error) {
	sc.set(s.def.name, &macro{def: s.def, scope: sc})
	return flowNext, nil
}

func (s *callStmt) exec(st *state, sc *scope) (flow, error) {
	caller := &macro{def: s.def, scope: sc}
	v, err := s.call.evalWith(st, sc, caller)
	if err != nil {
		return flowNext, err
	}
	return flowNext, st.printOnly(v)
}

// check reports a target that writes to an attribute of a value that is not a
// namespace.
func (t target) check(sc *scope) error {
	for _, part := range t.tuple {
		if err := part.check(sc); err != nil {
			return err
		}
	}
	if t.attr == "" {
		return nil
	}
	v, _ := sc.lookup(t.name)
	if _, ok := v.(*namespace); !ok {
		return fail(ErrRuntime, "cannot assign attribute on non-namespace object")
	}
	return nil
}

func (st *state) assign(t target, v Value, sc *scope) error {
	switch {
	case t.attr != "":
		if err := t.check(sc); err != nil {
			return err
		}
		ns, _ := sc.lookup(t.name)
		return ns.(*namespace).attrs.set(st, &Str{s: t.attr}, v)
	case t.name != "":
		sc.set(t.name, v)
		return st.alloc(32)
	}
	next, err := st.iterate(v)
	if err != nil {
		return typeErr("cannot unpack non-iterable %s object", v.pyType())
	}
	for i, part := range t.tuple {
		item, ok, err := next()
		if err != nil {
			return err
		}
		if !ok {
			return valueErr("not enough values to unpack (expected %d, got %d)", len(t.tuple), i)
		}
		if err := st.assign(part, item, sc); err != nil {
			return err
		}
	}
	if _, more, err := next(); err != nil || more {
		if err != nil {
			return err
		}
		return valueErr("too many values to unpack (expected %d)", len(t.tuple))
	}
	return nil
}
