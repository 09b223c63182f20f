package jinja

import "slices"

// args are the evaluated arguments of a call.
type args struct {
	pos   []Value
	names []string
	named []Value
}

func (st *state) args(c *callArgs, sc *scope) (*args, error) {
	a := &args{}
	for _, x := range c.pos {
		v, err := st.eval(x, sc)
		if err != nil {
			return nil, err
		}
		a.pos = append(a.pos, v)
	}
	for i, x := range c.kw {
		v, err := st.eval(x, sc)
		if err != nil {
			return nil, err
		}
		a.names, a.named = append(a.names, c.kwNames[i]), append(a.named, v)
	}
	if c.dynPos != nil {
		v, err := st.eval(c.dynPos, sc)
		if err != nil {
			return nil, err
		}
		more, err := st.elements(v)
		if err != nil {
			return nil, err
		}
		a.pos = append(a.pos, more...)
	}
	if c.dynNamed != nil {
		v, err := st.eval(c.dynNamed, sc)
		if err != nil {
			return nil, err
		}
		return a, a.addNamed(v)
	}
	return a, nil
}

// addNamed adds the arguments of **v.
func (a *args) addNamed(v Value) error {
	d, ok := v.(*Dict)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return u.use()
		}
		return typeErr("argument after ** must be a mapping, not %s", v.pyType())
	}
	for _, e := range d.entries {
		key, ok := e.key.(*Str)
		if !ok {
			return typeErr("keywords must be strings")
		}
		if slices.Contains(a.names, key.s) {
			return typeErr("got multiple values for keyword argument '%s'", key.s)
		}
		a.names, a.named = append(a.names, key.s), append(a.named, e.val)
	}
	return nil
}

// bind matches the arguments to parameters, of which the first `required` must be
// given. Absent arguments are nil.
func (a *args) bind(fn string, required int, params ...string) ([]Value, error) {
	if len(a.pos) > len(params) {
		return nil, typeErr("%s() takes at most %d arguments (%d given)", fn, len(params), len(a.pos)+len(a.names))
	}
	out := make([]Value, len(params))
	copy(out, a.pos)
	for i, name := range a.names {
		at := slices.Index(params, name)
		switch {
		case at < 0:
			return nil, typeErr("%s() got an unexpected keyword argument '%s'", fn, name)
		case out[at] != nil:
			return nil, typeErr("%s() got multiple values for argument '%s'", fn, name)
		}
		out[at] = a.named[i]
	}
	for i := range required {
		if out[i] == nil {
			return nil, typeErr("%s() missing required argument '%s'", fn, params[i])
		}
	}
	return out, nil
}

// positional checks the number of arguments of a function without keyword arguments
// and pads the list with nil.
func (a *args) positional(fn string, least, most int) ([]Value, error) {
	if err := a.noNames(fn); err != nil {
		return nil, err
	}
	if n := len(a.pos); n < least || n > most {
		return nil, typeErr("%s() takes %d to %d arguments (%d given)", fn, least, most, n)
	}
	out := make([]Value, most)
	copy(out, a.pos)
	return out, nil
}

func (a *args) noNames(fn string) error {
	if len(a.names) > 0 {
		return typeErr("%s() takes no keyword arguments", fn)
	}
	return nil
}

// pop returns a named argument and removes it.
func (a *args) pop(name string) (Value, bool) {
	i := slices.Index(a.names, name)
	if i < 0 {
		return nil, false
	}
	v := a.named[i]
	a.names, a.named = slices.Delete(a.names, i, i+1), slices.Delete(a.named, i, i+1)
	return v, true
}

func (c *callExpr) eval(st *state, sc *scope) (Value, error) { return c.evalWith(st, sc, nil) }

// evalWith evaluates the call, with caller as an argument if it is not nil.
func (c *callExpr) evalWith(st *state, sc *scope, caller *macro) (Value, error) {
	fn, err := st.eval(c.fn, sc)
	if err != nil {
		return nil, err
	}
	a, err := st.args(&c.args, sc)
	if err != nil {
		return nil, err
	}
	if caller != nil {
		if slices.Contains(a.names, "caller") {
			return nil, typeErr("got multiple values for keyword argument 'caller'")
		}
		a.names, a.named = append(a.names, "caller"), append(a.named, caller)
	}
	return st.call(fn, a)
}

// call calls a callable value.
func (st *state) call(fn Value, a *args) (Value, error) {
	if err := st.enter(); err != nil {
		return nil, err
	}
	defer func() { st.depth-- }()
	switch fn := fn.(type) {
	case *function:
		if fn.call != nil {
			return fn.call(st, a)
		}
	case *macro:
		return fn.call(st, a)
	case *loop:
		return fn.call(a)
	case *undefined:
		return nil, fn.use()
	}
	return nil, typeErr("'%s' object is not callable", fn.pyType())
}

func callable(v Value) bool {
	switch v := v.(type) {
	case *function:
		return v.call != nil
	case *macro, *loop, *undefined:
		return true
	}
	return false
}

// method returns a function bound to its object.
func method(name string, call func(*state, *args) (Value, error)) *function {
	return &function{name: name, kind: "method", call: call}
}

// macro is a macro or call block together with the variables of its scope.
type macro struct {
	def   *macroDef
	scope *scope
}

func (*macro) pyType() string { return "Macro" }

// call renders the macro and returns a plain string.
func (m *macro) call(st *state, a *args) (Value, error) {
	sc, err := m.bind(st, a)
	if err != nil {
		return nil, err
	}
	return asValue(st.capture(func() error {
		_, err := st.run(m.def.body, sc)
		return err
	}))
}

// bind returns the scope of a call, with parameters, defaults and special names.
func (m *macro) bind(st *state, a *args) (*scope, error) {
	def := m.def
	sc := m.scope.child(def.undef...)
	given := make([]bool, len(def.params))
	explicitCaller := false
	for i, name := range def.params {
		var v Value = undefinedName(name)
		switch {
		case i < len(a.pos):
			v, given[i] = a.pos[i], true
		default:
			if named, ok := a.pop(name); ok {
				v, given[i] = named, true
			}
		}
		explicitCaller = explicitCaller || name == "caller"
		sc.set(name, v)
	}
	if def.caller && !explicitCaller {
		caller, ok := a.pop("caller")
		if !ok || isNone(caller) {
			caller = &undefined{msg: "No caller defined"}
		}
		sc.set("caller", caller)
	}
	if err := m.bindRest(st, a, sc); err != nil {
		return nil, err
	}
	for i, name := range def.params {
		if given[i] {
			continue
		}
		var v Value = &undefined{msg: "parameter '" + name + "' was not provided"}
		if j := i - (len(def.params) - len(def.defaults)); j >= 0 {
			var err error
			if v, err = st.eval(def.defaults[j], sc); err != nil {
				return nil, err
			}
		}
		sc.set(name, v)
	}
	return sc, nil
}

// bindRest handles the arguments that match no parameter.
func (m *macro) bindRest(st *state, a *args, sc *scope) error {
	def := m.def
	if def.kwargs {
		d := NewDict()
		for i, name := range a.names {
			if err := d.set(st, &Str{s: name}, a.named[i]); err != nil {
				return err
			}
		}
		sc.set("kwargs", d)
	} else if len(a.names) > 0 {
		return typeErr("macro '%s' takes no keyword argument '%s'", def.name, a.names[0])
	}
	n := len(def.params)
	switch {
	case def.varargs:
		sc.set("varargs", &tuple{items: a.pos[min(n, len(a.pos)):]})
	case len(a.pos) > n:
		return typeErr("macro '%s' takes not more than %d argument(s)", def.name, n)
	}
	return nil
}

func (m *macro) attr(name string) (Value, bool) {
	switch name {
	case "name":
		return Trusted(m.def.name), true
	case "arguments":
		t := &tuple{}
		for _, p := range m.def.params {
			t.items = append(t.items, Trusted(p))
		}
		return t, true
	case "catch_kwargs":
		return Bool(m.def.kwargs), true
	case "catch_varargs":
		return Bool(m.def.varargs), true
	case "caller":
		return Bool(m.def.caller), true
	case "explicit_caller":
		return Bool(slices.Contains(m.def.params, "caller")), true
	}
	return nil, false
}
