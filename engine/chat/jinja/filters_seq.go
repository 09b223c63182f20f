package jinja

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// getter returns a function that looks up an attribute path, such as "a.b.0".
// Without a path, the function returns its argument.
func (st *state) getter(path Value) (func(Value) (Value, error), error) {
	return st.getterOr(path, nil)
}

// getterOr is getter with a default value, for paths with an undefined part. If
// def is nil, there is no default.
func (st *state) getterOr(path, def Value) (func(Value) (Value, error), error) {
	var keys []Value
	switch p := path.(type) {
	case nil, NoneType:
		return func(v Value) (Value, error) { return v, nil }, nil
	case *Str:
		if err := st.charge(len(p.s)); err != nil {
			return nil, err
		}
		for _, part := range strings.Split(p.s, ".") {
			keys = append(keys, pathKey(part))
		}
	default:
		keys = []Value{path}
	}
	return func(v Value) (Value, error) {
		for _, k := range keys {
			var err error
			if v, err = st.item(v, k); err != nil {
				return nil, err
			}
			if isUndefined(v) && def != nil && !isNone(def) {
				v = def
			}
		}
		return v, st.charge(len(keys))
	}, nil
}

func pathKey(part string) Value {
	if part != "" && strings.TrimFunc(part, isDigit) == "" {
		if n, err := parseInt(part, 10); err == nil {
			return n
		}
	}
	return &Str{s: part}
}

// fold returns a function that makes string comparison case-insensitive.
func (st *state) fold(caseSensitive Value) func(Value) (Value, error) {
	return func(v Value) (Value, error) {
		s, ok := v.(*Str)
		if !ok || caseSensitive != nil && truth(caseSensitive) {
			return v, nil
		}
		return asValue(st.lower(s))
	}
}

// lazy returns a generator over the elements of v for which f reports true. It
// reads v only when the generator is first read.
func (st *state) lazy(v Value, f func(Value) (Value, bool, error)) Value {
	var next iterator
	return &iterValue{"generator", func() (Value, bool, error) {
		var err error
		if next == nil {
			if next, err = st.iterate(v); err != nil {
				return nil, false, err
			}
		}
		for {
			item, ok, err := next()
			if err != nil || !ok {
				return nil, false, err
			}
			item, keep, err := f(item)
			if err != nil || keep {
				return item, keep, err
			}
		}
	}}
}

// mapFilter is map(filter, …) or map(attribute=…, default=…).
func mapFilter(st *state, v Value, a *args) (Value, error) {
	var f func(Value) (Value, error)
	setup := func() error {
		attribute, ok := a.pop("attribute")
		if len(a.pos) == 0 && ok {
			def, _ := a.pop("default")
			if len(a.names) > 0 {
				return fail(ErrRuntime, "Unexpected keyword argument '%s'", a.names[0])
			}
			var err error
			f, err = st.getterOr(attribute, def)
			return err
		}
		if len(a.pos) == 0 {
			return fail(ErrRuntime, "map requires a filter argument")
		}
		name, ok := a.pos[0].(*Str)
		if !ok {
			return fail(ErrRuntime, "No filter named %s.", a.pos[0].pyType())
		}
		rest := *a
		rest.pos = a.pos[1:]
		f = func(item Value) (Value, error) {
			again := args{rest.pos, slices.Clone(rest.names), slices.Clone(rest.named)}
			return st.filter(name.s, item, &again)
		}
		return nil
	}
	if !truth(v) {
		return emptyIter(), nil
	}
	return st.lazy(v, func(item Value) (Value, bool, error) {
		if f == nil {
			if err := setup(); err != nil {
				return nil, false, err
			}
		}
		out, err := f(item)
		return out, true, err
	}), nil
}

func emptyIter() Value {
	return &iterValue{"generator", func() (Value, bool, error) { return nil, false, nil }}
}

// selectFilter returns the filter select, reject, selectattr or rejectattr. Its
// arguments are an attribute's name if attr is set, a test's name, and the test's
// arguments.
func selectFilter(name string, want, attr bool) filterFunc {
	return func(st *state, v Value, a *args) (Value, error) {
		if !truth(v) {
			return emptyIter(), nil
		}
		var keep func(Value) (bool, error)
		setup := func() error {
			pos := a.pos
			var path Value
			if attr {
				if len(pos) == 0 {
					return fail(ErrRuntime, "Missing parameter for attribute name")
				}
				path, pos = pos[0], pos[1:]
			}
			get, err := st.getter(path)
			if err != nil {
				return err
			}
			keep = func(item Value) (bool, error) {
				item, err := get(item)
				if err != nil {
					return false, err
				}
				if len(pos) == 0 {
					return truth(item) == want, nil
				}
				test, ok := pos[0].(*Str)
				if !ok {
					return false, fail(ErrRuntime, "No test named %s.", pos[0].pyType())
				}
				yes, err := st.test(test.s, item, &args{pos[1:], slices.Clone(a.names), slices.Clone(a.named)})
				return yes == want, err
			}
			return nil
		}
		return st.lazy(v, func(item Value) (Value, bool, error) {
			if keep == nil {
				if err := setup(); err != nil {
					return nil, false, err
				}
			}
			yes, err := keep(item)
			return item, yes, err
		}), nil
	}
}

// batchFilter is batch(linecount, fill_with).
func batchFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("batch", 1, "linecount", "fill_with")
	if err != nil {
		return nil, err
	}
	n, ok := asIndex(o[0])
	fill := o[1] != nil && !isNone(o[1])
	var next iterator
	done := false
	return &iterValue{"generator", func() (Value, bool, error) {
		var err error
		if next == nil {
			if next, err = st.iterate(v); err != nil {
				return nil, false, err
			}
		}
		row := &List{}
		for !done && (len(row.items) == 0 || !ok || len(row.items) != n) {
			item, more, err := next()
			if err != nil {
				return nil, false, err
			}
			if done = !more; more {
				row.Append(item)
			}
		}
		if len(row.items) == 0 {
			return nil, false, nil
		}
		if done && fill && ok && n > len(row.items) {
			if err := st.items(n); err != nil {
				return nil, false, err
			}
			for len(row.items) < n {
				row.Append(o[1])
			}
		}
		return row, true, st.items(len(row.items))
	}}, nil
}

// sliceFilter is slice(slices, fill_with).
func sliceFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("slice", 1, "slices", "fill_with")
	if err != nil {
		return nil, err
	}
	n, ok := asIndex(o[0])
	if !ok {
		return nil, typeErr("'%s' object cannot be interpreted as an integer", o[0].pyType())
	}
	var items []Value
	at, i := 0, -1
	return &iterValue{"generator", func() (Value, bool, error) {
		if i < 0 {
			if items, err = st.elements(v); err != nil {
				return nil, false, err
			}
			if n == 0 {
				return nil, false, valueErr("integer division or modulo by zero")
			}
		}
		if i++; i >= n {
			return nil, false, nil
		}
		size := len(items) / n
		extra := i < len(items)%n
		if extra {
			size++
		}
		row := &List{slices.Clone(items[at : at+size])}
		at += size
		if o[1] != nil && !isNone(o[1]) && !extra {
			row.Append(o[1])
		}
		return row, true, st.items(size + 1)
	}}, nil
}

// round is Python's round(n, precision). An integer stays an integer.
func (st *state) round(n number, precision int) (Value, error) {
	if n.float {
		return Float(roundHalfEven(n.f, precision)), nil
	}
	if precision >= 0 {
		return n.value(), nil
	}
	if precision < -maxDigits {
		return Int(0), nil
	}
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-precision)), nil)
	q := roundRat(new(big.Rat).SetFrac(n.int(), scale))
	return intValue(q.Mul(q, scale)), nil
}

// roundTo is ceil or floor(v · 10^precision) / 10^precision.
func (st *state) roundTo(v Value, method string, precision int) (Value, error) {
	scale, err := st.binary("**", Int(10), Int(precision))
	if err != nil {
		return nil, err
	}
	scaled, err := st.binary("*", v, scale)
	if err != nil {
		return nil, err
	}
	if f, ok := scaled.(Float); ok {
		x := math.Floor(float64(f))
		if method == "ceil" {
			x = math.Ceil(float64(f))
		}
		if scaled, err = floatToInt(x); err != nil {
			return nil, err
		}
	}
	return st.binary("/", scaled, scale)
}
