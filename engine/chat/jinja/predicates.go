package jinja

import "strings"

// testFunc applies a test to a value.
type testFunc func(st *state, v Value, a *args) (bool, error)

// tests maps names to Jinja2's tests.
var tests map[string]testFunc

func init() {
	tests = map[string]testFunc{
		"odd":         divisible(2, 1),
		"even":        divisible(2, 0),
		"divisibleby": divisibleBy,
		"defined":     is(func(v Value) bool { return !isUndefined(v) }),
		"undefined":   is(isUndefined),
		"none":        is(isNone),
		"boolean":     is(func(v Value) bool { _, ok := v.(Bool); return ok }),
		"true":        is(func(v Value) bool { return v == Bool(true) }),
		"false":       is(func(v Value) bool { return v == Bool(false) }),
		"integer":     is(isInteger),
		"float":       is(func(v Value) bool { _, ok := v.(Float); return ok }),
		"number":      is(func(v Value) bool { _, ok := asNumber(v); return ok }),
		"string":      is(isString),
		"mapping":     is(func(v Value) bool { _, ok := v.(*Dict); return ok }),
		"sequence":    is(isSequence),
		"iterable":    isIterable,
		"callable":    is(callable),
		"escaped":     is(func(v Value) bool { s, ok := v.(*Str); return ok && s.safe }),
		"lower":       hasCase(isLower, isUpper),
		"upper":       hasCase(isUpper, isLower),
		"sameas":      sameAs,
		"in":          isIn,
		"filter":      named(func(s string) bool { _, ok := filters[s]; return ok }),
		"test":        named(func(s string) bool { _, ok := tests[s]; return ok }),
	}
	for op, names := range map[string]string{
		"==": "== eq equalto", "!=": "!= ne", ">": "> gt greaterthan",
		">=": ">= ge", "<": "< lt lessthan", "<=": "<= le",
	} {
		for _, name := range strings.Fields(names) {
			tests[name] = comparing(name, op)
		}
	}
}

// is makes a test that takes no arguments.
func is(f func(Value) bool) testFunc {
	return func(_ *state, v Value, a *args) (bool, error) {
		if _, err := a.positional("test", 0, 0); err != nil {
			return false, err
		}
		return f(v), nil
	}
}

func comparing(name, op string) testFunc {
	return func(st *state, v Value, a *args) (bool, error) {
		o, err := a.positional(name, 1, 1)
		if err != nil {
			return false, err
		}
		return st.compare(op, v, o[0])
	}
}

func isInteger(v Value) bool {
	switch v.(type) {
	case Int, *bigInt:
		return true
	}
	return false
}

// isSequence reports whether a value has a length and can be indexed by number or
// key.
func isSequence(v Value) bool {
	switch v.(type) {
	case *Str, *List, *tuple, *Dict, *rangeValue, *undefined:
		return true
	}
	return false
}

func isIterable(st *state, v Value, a *args) (bool, error) {
	if _, err := a.positional("iterable", 0, 0); err != nil {
		return false, err
	}
	_, err := st.iterate(v)
	return err == nil, nil
}

func divisible(by, rest int) testFunc {
	return func(st *state, v Value, a *args) (bool, error) {
		if _, err := a.positional("test", 0, 0); err != nil {
			return false, err
		}
		return st.leaves(v, Int(by), Int(rest))
	}
}

func divisibleBy(st *state, v Value, a *args) (bool, error) {
	o, err := a.bind("divisibleby", 1, "num")
	if err != nil {
		return false, err
	}
	return st.leaves(v, o[0], Int(0))
}

// leaves reports whether v % by equals rest.
func (st *state) leaves(v, by, rest Value) (bool, error) {
	m, err := st.binary("%", v, by)
	if err != nil {
		return false, err
	}
	return st.equal(m, rest)
}

// hasCase returns the tests lower and upper. They require letters of one case,
// and no letters of the other case.
func hasCase(want, other func(rune) bool) testFunc {
	return func(st *state, v Value, a *args) (bool, error) {
		if _, err := a.positional("test", 0, 0); err != nil {
			return false, err
		}
		s, err := st.str(v)
		if err != nil {
			return false, err
		}
		return allCased(s.s, want, other), st.charge(len(s.s) / 16)
	}
}

func sameAs(_ *state, v Value, a *args) (bool, error) {
	o, err := a.bind("sameas", 1, "other")
	if err != nil {
		return false, err
	}
	if x, ok := v.(*Str); ok {
		y, ok := o[0].(*Str)
		return ok && x.s == y.s && x.safe == y.safe, nil
	}
	return v == o[0], nil
}

func isIn(st *state, v Value, a *args) (bool, error) {
	o, err := a.bind("in", 1, "seq")
	if err != nil {
		return false, err
	}
	return st.contains(o[0], v)
}

// named returns the tests filter and test, which report whether a name is
// registered.
func named(known func(string) bool) testFunc {
	return func(_ *state, v Value, a *args) (bool, error) {
		if _, err := a.positional("test", 0, 0); err != nil {
			return false, err
		}
		s, ok := v.(*Str)
		return ok && known(s.s), nil
	}
}
