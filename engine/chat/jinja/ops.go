package jinja

import "strings"

// binary evaluates an arithmetic operation.
func (st *state) binary(op string, a, b Value) (Value, error) {
	x, okx := asNumber(a)
	y, oky := asNumber(b)
	if okx && oky {
		return st.arith(op, x, y)
	}
	if s, ok := a.(*Str); ok && op == "%" {
		return st.printf(s, b)
	}
	if u, ok := a.(*undefined); ok {
		return nil, u.use()
	}
	if u, ok := b.(*undefined); ok {
		if s, ok := a.(*Str); ok && s.safe && op == "*" {
			return nil, typeErr("can't multiply sequence by non-int of type 'Undefined'")
		}
		return nil, u.use()
	}
	switch op {
	case "+":
		if v, ok, err := st.join(a, b); ok || err != nil {
			return v, err
		}
	case "*":
		if v, ok, err := st.repeat(a, b); ok || err != nil {
			return v, err
		}
		if v, ok, err := st.repeat(b, a); ok || err != nil {
			return v, err
		}
	}
	if op == "+" && isString(a) {
		return nil, typeErr("can only concatenate str (not \"%s\") to str", b.pyType())
	}
	return nil, typeErr("unsupported operand type(s) for %s: '%s' and '%s'", op, a.pyType(), b.pyType())
}

// join is + for two strings, lists or tuples. If one side is Markup, the other is
// escaped.
func (st *state) join(a, b Value) (Value, bool, error) {
	switch x := a.(type) {
	case *Str:
		y, ok := b.(*Str)
		if !ok {
			return nil, false, nil
		}
		var err error
		if x.safe != y.safe {
			if x, err = st.escape(x); err != nil {
				return nil, false, err
			}
			if y, err = st.escape(y); err != nil {
				return nil, false, err
			}
		}
		out := builder{st: st, buf: make([]byte, 0, len(x.s)+len(y.s))}
		out.add(x)
		out.add(y)
		v, err := out.value(x.safe)
		return v, true, err
	case *List:
		if y, ok := b.(*List); ok {
			items, err := st.concat(x.items, y.items)
			return &List{items}, true, err
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			items, err := st.concat(x.items, y.items)
			return &tuple{items: items}, true, err
		}
	}
	return nil, false, nil
}

func (st *state) concat(a, b []Value) ([]Value, error) {
	out, err := st.list(len(a) + len(b))
	if err != nil {
		return nil, err
	}
	return append(append(out, a...), b...), nil
}

// repeat is seq * n.
func (st *state) repeat(seq, times Value) (Value, bool, error) {
	switch seq.(type) {
	case *Str, *List, *tuple:
	default:
		return nil, false, nil
	}
	n, ok := asIndex(times)
	if !ok {
		if _, big := times.(*bigInt); big {
			return nil, false, limitErr("a sequence repeated more than 2^63 times")
		}
		return nil, false, nil
	}
	n = max(n, 0)
	if s, ok := seq.(*Str); ok {
		if len(s.s) == 0 {
			return s, true, nil
		}
		if n > st.memory/len(s.s) {
			return nil, false, limitErr("a string of %d bytes repeated %d times", len(s.s), n)
		}
		b := builder{st: st, buf: make([]byte, 0, n*len(s.s))}
		if err := st.charge(n); err != nil {
			return nil, false, err
		}
		for range n {
			b.add(s)
		}
		v, err := b.value(s.safe)
		return v, true, err
	}
	items, _ := sequence(seq)
	if len(items) == 0 {
		n = 0
	}
	if n > 0 && len(items) > st.memory/16/n {
		return nil, false, limitErr("a list of %d elements repeated %d times", len(items), n)
	}
	out, err := st.list(n * len(items))
	if err != nil {
		return nil, false, err
	}
	for range n {
		out = append(out, items...)
	}
	if _, ok := seq.(*tuple); ok {
		return &tuple{items: out}, true, nil
	}
	return &List{out}, true, nil
}

// compare evaluates a comparison or a membership test.
func (st *state) compare(op string, a, b Value) (bool, error) {
	switch op {
	case "==":
		return st.equal(a, b)
	case "!=":
		eq, err := st.equal(a, b)
		return !eq, err
	case "in":
		return st.contains(b, a)
	case "not in":
		in, err := st.contains(b, a)
		return !in, err
	}
	return st.order(op, a, b, 0)
}

// equal is Python's a == b.
func (st *state) equal(a, b Value) (bool, error) { return st.equalAt(a, b, 0) }

func (st *state) equalAt(a, b Value, depth int) (bool, error) {
	if depth > maxNest {
		return false, limitErr("comparison nested deeper than %d", maxNest)
	}
	if err := st.charge(1); err != nil {
		return false, err
	}
	if x, ok := asNumber(a); ok {
		y, ok := asNumber(b)
		if !ok {
			return false, nil
		}
		sign, unordered := x.cmp(y)
		return sign == 0 && !unordered, nil
	}
	switch x := a.(type) {
	case *Str:
		y, ok := b.(*Str)
		return ok && x.s == y.s, st.charge(len(x.s) / 256)
	case NoneType:
		return isNone(b), nil
	case *undefined:
		return isUndefined(b), nil
	case *List:
		y, ok := b.(*List)
		if !ok {
			return false, nil
		}
		return st.equalItems(x.items, y.items, depth)
	case *tuple:
		y, ok := b.(*tuple)
		if !ok {
			return false, nil
		}
		return st.equalItems(x.items, y.items, depth)
	case *Dict:
		y, ok := b.(*Dict)
		if !ok {
			return false, nil
		}
		return st.equalDicts(x, y, depth)
	case *rangeValue:
		y, ok := b.(*rangeValue)
		return ok && x.n == y.n && (x.n == 0 || x.start == y.start && (x.n == 1 || x.step == y.step)), nil
	case *dictView:
		y, ok := b.(*dictView)
		return ok && x.kind == "keys" && y.kind == "keys" && sameKeys(x.d, y.d), nil
	}
	return a == b, nil
}

func (st *state) equalItems(x, y []Value, depth int) (bool, error) {
	if len(x) != len(y) {
		return false, nil
	}
	for i := range x {
		eq, err := st.equalAt(x[i], y[i], depth+1)
		if err != nil || !eq {
			return false, err
		}
	}
	return true, nil
}

func (st *state) equalDicts(x, y *Dict, depth int) (bool, error) {
	if x.Len() != y.Len() {
		return false, nil
	}
	for _, e := range x.entries {
		v, ok := y.find(e.hash)
		if !ok {
			return false, nil
		}
		eq, err := st.equalAt(e.val, v, depth+1)
		if err != nil || !eq {
			return false, err
		}
	}
	return true, nil
}

func sameKeys(x, y *Dict) bool {
	if x.Len() != y.Len() {
		return false
	}
	for _, e := range x.entries {
		if _, ok := y.find(e.hash); !ok {
			return false
		}
	}
	return true
}

// order evaluates <, <=, > or >=.
func (st *state) order(op string, a, b Value, depth int) (bool, error) {
	if depth > maxNest {
		return false, limitErr("comparison nested deeper than %d", maxNest)
	}
	if err := st.charge(1); err != nil {
		return false, err
	}
	if u, ok := a.(*undefined); ok {
		return false, u.use()
	}
	if u, ok := b.(*undefined); ok {
		return false, u.use()
	}
	x, okx := asNumber(a)
	y, oky := asNumber(b)
	if okx && oky {
		sign, unordered := x.cmp(y)
		return !unordered && holds(op, sign), nil
	}
	if s, ok := a.(*Str); ok {
		if t, ok := b.(*Str); ok {
			sign := 0
			switch {
			case s.s < t.s:
				sign = -1
			case s.s > t.s:
				sign = 1
			}
			return holds(op, sign), st.charge(len(s.s) / 256)
		}
	}
	if a.pyType() == b.pyType() {
		if s, ok := sequence(a); ok {
			t, _ := sequence(b)
			return st.orderItems(op, s, t, depth)
		}
	}
	return false, typeErr("'%s' not supported between instances of '%s' and '%s'", op, a.pyType(), b.pyType())
}

func (st *state) orderItems(op string, x, y []Value, depth int) (bool, error) {
	for i := range min(len(x), len(y)) {
		eq, err := st.equalAt(x[i], y[i], depth+1)
		if err != nil {
			return false, err
		}
		if !eq {
			return st.order(op, x[i], y[i], depth+1)
		}
	}
	return holds(op, len(x)-len(y)), nil
}

func holds(op string, sign int) bool {
	switch op {
	case "<":
		return sign < 0
	case "<=":
		return sign <= 0
	case ">":
		return sign > 0
	}
	return sign >= 0
}

// contains is Python's `v in seq`.
func (st *state) contains(seq, v Value) (bool, error) {
	switch s := seq.(type) {
	case *Str:
		x, ok := v.(*Str)
		if !ok {
			return false, typeErr("'in <string>' requires string as left operand, not %s", v.pyType())
		}
		if err := st.charge(len(s.s) / 32); err != nil {
			return false, err
		}
		return strings.Contains(s.s, x.s), nil
	case *Dict:
		k, err := hashKey(st, v)
		if err != nil {
			return false, err
		}
		_, ok := s.find(k)
		return ok, nil
	case *dictView:
		if s.kind == "keys" {
			return st.contains(s.d, v)
		}
	}
	next, err := st.iterate(seq)
	if err != nil {
		return false, typeErr("argument of type '%s' is not iterable", seq.pyType())
	}
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return false, err
		}
		eq, err := st.equal(item, v)
		if err != nil || eq {
			return eq, err
		}
	}
}
