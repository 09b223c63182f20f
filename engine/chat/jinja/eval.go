package jinja

import "unicode/utf8"

func (x *constExpr) eval(*state, *scope) (Value, error) { return x.v, nil }

func (x *nameExpr) eval(_ *state, sc *scope) (Value, error) {
	if v, ok := sc.lookup(x.name); ok {
		return v, nil
	}
	return undefinedName(x.name), nil
}

func (st *state) evalAll(xs []expr, sc *scope) ([]Value, error) {
	out, err := st.list(len(xs))
	if err != nil {
		return nil, err
	}
	for _, x := range xs {
		v, err := st.eval(x, sc)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (x *listExpr) eval(st *state, sc *scope) (Value, error) {
	items, err := st.evalAll(x.items, sc)
	if err != nil {
		return nil, err
	}
	return &List{items}, nil
}

func (x *tupleExpr) eval(st *state, sc *scope) (Value, error) {
	items, err := st.evalAll(x.items, sc)
	if err != nil {
		return nil, err
	}
	return &tuple{items: items}, nil
}

func (x *dictExpr) eval(st *state, sc *scope) (Value, error) {
	d := NewDict()
	for i := range x.keys {
		k, err := st.eval(x.keys[i], sc)
		if err != nil {
			return nil, err
		}
		v, err := st.eval(x.vals[i], sc)
		if err != nil {
			return nil, err
		}
		if err := d.set(st, k, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (x *notExpr) eval(st *state, sc *scope) (Value, error) {
	v, err := st.eval(x.x, sc)
	if err != nil {
		return nil, err
	}
	return Bool(!truth(v)), nil
}

func (x *andExpr) eval(st *state, sc *scope) (Value, error) {
	v, err := st.eval(x.x, sc)
	if err != nil || !truth(v) {
		return v, err
	}
	return st.eval(x.y, sc)
}

func (x *orExpr) eval(st *state, sc *scope) (Value, error) {
	v, err := st.eval(x.x, sc)
	if err != nil || truth(v) {
		return v, err
	}
	return st.eval(x.y, sc)
}

func (x *condExpr) eval(st *state, sc *scope) (Value, error) {
	v, err := st.eval(x.test, sc)
	switch {
	case err != nil:
		return nil, err
	case truth(v):
		return st.eval(x.yes, sc)
	case x.no == nil:
		return &undefined{msg: "the inline if-expression evaluated to false and no else section was defined"}, nil
	}
	return st.eval(x.no, sc)
}

func (x *concatExpr) eval(st *state, sc *scope) (Value, error) {
	vals, err := st.evalAll(x.items, sc)
	if err != nil {
		return nil, err
	}
	b := builder{st: st}
	for _, v := range vals {
		s, err := st.str(v)
		if err != nil {
			return nil, err
		}
		b.add(s)
	}
	return b.value(false)
}

func (x *binExpr) eval(st *state, sc *scope) (Value, error) {
	a, err := st.eval(x.x, sc)
	if err != nil {
		return nil, err
	}
	b, err := st.eval(x.y, sc)
	if err != nil {
		return nil, err
	}
	return st.binary(x.op, a, b)
}

func (x *signExpr) eval(st *state, sc *scope) (Value, error) {
	v, err := st.eval(x.x, sc)
	if err != nil {
		return nil, err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.use()
	}
	n, ok := asNumber(v)
	if !ok {
		return nil, typeErr("bad operand type for unary %s: '%s'", x.op, v.pyType())
	}
	if x.op == "-" {
		return n.neg(), nil
	}
	return n.value(), nil
}

func (x *compareExpr) eval(st *state, sc *scope) (Value, error) {
	a, err := st.eval(x.first, sc)
	if err != nil {
		return nil, err
	}
	for i, op := range x.ops {
		b, err := st.eval(x.rest[i], sc)
		if err != nil {
			return nil, err
		}
		ok, err := st.compare(op, a, b)
		if err != nil || !ok {
			return Bool(false), err
		}
		a = b
	}
	return Bool(true), nil
}

func (x *filterExpr) eval(st *state, sc *scope) (Value, error) {
	var obj Value
	var err error
	if x.obj == nil {
		obj, _ = sc.lookup(blockText)
	} else if obj, err = st.eval(x.obj, sc); err != nil {
		return nil, err
	}
	a, err := st.args(&x.args, sc)
	if err != nil {
		return nil, err
	}
	return st.filter(x.name, obj, a)
}

// filter applies a filter by name.
func (st *state) filter(name string, v Value, a *args) (Value, error) {
	f, ok := filters[name]
	if !ok {
		return nil, fail(ErrRuntime, "No filter named '%s' found.", name)
	}
	if err := st.enter(); err != nil {
		return nil, err
	}
	defer func() { st.depth-- }()
	return f(st, v, a)
}

func (x *testExpr) eval(st *state, sc *scope) (Value, error) {
	obj, err := st.eval(x.obj, sc)
	if err != nil {
		return nil, err
	}
	a, err := st.args(&x.args, sc)
	if err != nil {
		return nil, err
	}
	ok, err := st.test(x.name, obj, a)
	return Bool(ok), err
}

// test applies a test by name.
func (st *state) test(name string, v Value, a *args) (bool, error) {
	f, ok := tests[name]
	if !ok {
		return false, fail(ErrRuntime, "No test named '%s' found.", name)
	}
	if err := st.charge(1); err != nil {
		return false, err
	}
	return f(st, v, a)
}

// iterate returns an iterator over a value's elements. A value that cannot be
// iterated gives a type error.
func (st *state) iterate(v Value) (iterator, error) {
	switch v := v.(type) {
	case *List:
		return st.iterList(v), nil
	case *tuple:
		return st.iterList(&List{v.items}), nil
	case *Dict:
		return st.iterView(&dictView{"keys", v}), nil
	case *dictView:
		return st.iterView(v), nil
	case *Str:
		return st.iterStr(v), nil
	case *rangeValue:
		i := -1
		return func() (Value, bool, error) {
			if i++; i >= v.n {
				return nil, false, nil
			}
			return Int(v.start + i*v.step), true, st.charge(1)
		}, nil
	case *iterValue:
		return v.iter, nil
	case *undefined:
		return func() (Value, bool, error) { return nil, false, nil }, nil
	}
	return nil, typeErr("'%s' object is not iterable", v.pyType())
}

// iterList iterates over a list that may grow during the iteration.
func (st *state) iterList(l *List) iterator {
	i := -1
	return func() (Value, bool, error) {
		if i++; i >= len(l.items) {
			return nil, false, nil
		}
		return l.items[i], true, st.charge(1)
	}
}

func (st *state) iterView(v *dictView) iterator {
	i := -1
	return func() (Value, bool, error) {
		if i++; i >= len(v.d.entries) {
			return nil, false, nil
		}
		e := &v.d.entries[i]
		switch v.kind {
		case "keys":
			return e.key, true, st.charge(1)
		case "values":
			return e.val, true, st.charge(1)
		}
		return &tuple{items: []Value{e.key, e.val}}, true, st.items(2)
	}
}

func (st *state) iterStr(s *Str) iterator {
	s = s.plain()
	at := 0
	return func() (Value, bool, error) {
		if at >= len(s.s) {
			return nil, false, nil
		}
		_, n := utf8.DecodeRuneInString(s.s[at:])
		c := s.cut(at, at+n)
		at += n
		return c, true, st.items(2)
	}
}

// drain reads an iterator to its end.
func (st *state) drain(next iterator) ([]Value, error) {
	var out []Value
	for {
		v, ok, err := next()
		if err != nil || !ok {
			return out, err
		}
		if err := st.items(1); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
}

// elements is Python's list(v).
func (st *state) elements(v Value) ([]Value, error) {
	if items, ok := sequence(v); ok {
		out, err := st.list(len(items))
		return append(out, items...), err
	}
	next, err := st.iterate(v)
	if err != nil {
		return nil, err
	}
	return st.drain(next)
}
