package jinja

import "strings"

func (x *attrExpr) eval(st *state, sc *scope) (Value, error) {
	obj, err := st.eval(x.obj, sc)
	if err != nil {
		return nil, err
	}
	return st.attr(obj, x.name)
}

func (x *itemExpr) eval(st *state, sc *scope) (Value, error) {
	obj, err := st.eval(x.obj, sc)
	if err != nil {
		return nil, err
	}
	index, err := st.eval(x.index, sc)
	if err != nil {
		return nil, err
	}
	return st.item(obj, index)
}

// attr evaluates obj.name. It tries the attribute first, then the key.
func (st *state) attr(obj Value, name string) (Value, error) {
	if u, ok := obj.(*undefined); ok && !dunders[name] {
		return nil, u.use()
	}
	v, ok, err := st.pyAttr(obj, name)
	if err != nil || ok {
		return v, err
	}
	if d, ok := obj.(*Dict); ok {
		if v, ok := d.Get(name); ok {
			return v, nil
		}
	}
	return missing(obj, &Str{s: name}), nil
}

// item evaluates obj[index]. It tries the element or key first, then the attribute.
func (st *state) item(obj, index Value) (Value, error) {
	switch o := obj.(type) {
	case *undefined:
		return nil, o.use()
	case *Dict:
		if k, err := hashKey(st, index); err == nil {
			if v, ok := o.find(k); ok {
				return v, nil
			}
		}
	default:
		if v, ok, err := st.element(obj, index); ok || err != nil {
			return v, err
		}
	}
	if name, ok := index.(*Str); ok {
		v, ok, err := st.pyAttr(obj, name.s)
		if err != nil || ok {
			return v, err
		}
	}
	return missing(obj, index), nil
}

// missing returns the undefined value for a missing attribute or element.
func missing(obj, key Value) *undefined {
	if s, ok := key.(*Str); ok {
		return &undefined{msg: "'" + describe(obj) + "' has no attribute '" + s.s + "'"}
	}
	name := key.pyType()
	switch key := key.(type) {
	case Int, Bool, Float, NoneType, *bigInt:
		name = scalarRepr(key)
	}
	return &undefined{msg: describe(obj) + " has no element " + name}
}

// element returns the element of a sequence at an index. Negative indexes count
// from the end.
func (st *state) element(obj, index Value) (Value, bool, error) {
	i, ok := asIndex(index)
	if !ok {
		return nil, false, nil
	}
	n, ok := length(obj)
	if !ok {
		return nil, false, nil
	}
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return nil, false, nil
	}
	switch o := obj.(type) {
	case *Str:
		if len(o.s) != n || o.runes == 0 {
			if err := st.charge(len(o.s) / 64); err != nil {
				return nil, false, err
			}
		}
		return o.cut(o.offset(i), o.offset(i+1)), true, nil
	case *rangeValue:
		return Int(o.start + i*o.step), true, nil
	}
	if items, ok := sequence(obj); ok {
		return items[i], true, nil
	}
	return nil, false, nil
}

// asIndex returns the integer value of an Int or Bool.
func asIndex(v Value) (int, bool) {
	switch v := v.(type) {
	case Int:
		return int(v), true
	case Bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// dunders lists the attributes that every Python object has.
var dunders = func() map[string]bool {
	m := map[string]bool{}
	for _, s := range strings.Fields("class delattr dir doc eq format ge getattribute getstate gt hash init" +
		" init_subclass le lt ne new reduce reduce_ex repr setattr sizeof str subclasshook") {
		m["__"+s+"__"] = true
	}
	return m
}()

// unsafe returns the value for an attribute that templates must not use.
func unsafe(obj Value, name string) *undefined {
	return &undefined{
		msg:    "access to attribute '" + name + "' of '" + obj.pyType() + "' object is unsafe",
		unsafe: true,
	}
}

// pyAttr is Python's getattr(obj, name).
func (st *state) pyAttr(obj Value, name string) (v Value, ok bool, err error) {
	if dunders[name] || extraDunders[obj.pyType()][name] {
		return unsafe(obj, name), true, nil
	}
	switch o := obj.(type) {
	case *Str:
		v, ok = o.method(name)
	case *List:
		v, ok = o.method(name)
	case *Dict:
		v, ok = o.method(name)
	case *tuple:
		v, ok = o.method(name)
	case *namespace:
		v, ok = o.attrs.Get(name)
	case *macro:
		v, ok = o.attr(name)
	case *loop:
		return o.attr(name)
	case *function:
		v, ok = o.attr[name]
	case *rangeValue:
		v, ok = o.attr(name)
	case Bool, Int, *bigInt, Float:
		v, ok = numberAttr(o, name)
	}
	return v, ok, nil
}

// extraDunders lists more internal attributes, for the types that occur in
// templates.
var extraDunders = func() map[string]map[string]bool {
	m := map[string]map[string]bool{}
	add := func(typ, names string) {
		m[typ] = map[string]bool{}
		for _, s := range strings.Fields(names) {
			m[typ]["__"+s+"__"] = true
		}
	}
	seq := "add contains getitem iter len mul rmul getnewargs class_getitem"
	add("str", seq+" mod rmod")
	add("Markup", seq+" mod rmod radd html html_format slots module")
	add("tuple", seq)
	add("list", seq+" delitem iadd imul reversed setitem")
	add("dict", "contains delitem getitem ior iter len or reversed ror setitem class_getitem")
	add("function", "annotations builtins call closure code defaults dict get globals kwdefaults module name qualname self func")
	add("Macro", "call dict module weakref")
	add("LoopContext", "call dict iter len module next weakref")
	number := "abs add bool divmod float floordiv int mod mul neg pos pow radd rdivmod rfloordiv rmod rmul round rpow rsub rtruediv sub truediv trunc getnewargs"
	add("int", number+" and ceil floor index invert lshift or rand rlshift ror rrshift rshift rxor xor")
	m["bool"] = m["int"]
	add("float", number+" ceil floor getformat")
	add("NoneType", "bool")
	return m
}()

// method returns a method of a tuple, or one of its named elements.
func (t *tuple) method(name string) (Value, bool) {
	for i, n := range t.names {
		if n == name {
			return t.items[i], true
		}
	}
	return sequenceMethod(t, name)
}

func (r *rangeValue) attr(name string) (Value, bool) {
	switch name {
	case "start":
		return Int(r.start), true
	case "stop":
		return Int(r.stop), true
	case "step":
		return Int(r.step), true
	}
	return sequenceMethod(r, name)
}

func (x *sliceExpr) eval(st *state, sc *scope) (Value, error) {
	obj, err := st.eval(x.obj, sc)
	if err != nil {
		return nil, err
	}
	var bounds [3]Value
	for i, b := range []expr{x.lo, x.hi, x.step} {
		bounds[i] = None
		if b != nil {
			if bounds[i], err = st.eval(b, sc); err != nil {
				return nil, err
			}
		}
	}
	return st.slice(obj, bounds)
}

// slice is Python's obj[lo:hi:step].
func (st *state) slice(obj Value, bounds [3]Value) (Value, error) {
	var n int
	switch o := obj.(type) {
	case *Str, *List, *tuple, *rangeValue:
		n, _ = length(o)
	case *undefined:
		return nil, o.use()
	case *Dict:
		return nil, typeErr("unhashable type: 'slice'")
	default:
		return nil, typeErr("'%s' object is not subscriptable", obj.pyType())
	}
	lo, hi, step, err := sliceBounds(bounds, n)
	if err != nil {
		return nil, err
	}
	count := 0
	switch {
	case step > 0 && lo < hi:
		count = (hi-lo-1)/step + 1
	case step < 0 && lo > hi:
		count = (lo-hi-1)/-step + 1
	}
	if s, ok := obj.(*Str); ok {
		return st.sliceStr(s, lo, hi, step, count)
	}
	if r, ok := obj.(*rangeValue); ok {
		return &rangeValue{r.start + lo*r.step, r.start + hi*r.step, r.step * step, count}, nil
	}
	items, _ := sequence(obj)
	out, err := st.list(count)
	if err != nil {
		return nil, err
	}
	for i := range count {
		out = append(out, items[lo+i*step])
	}
	if _, ok := obj.(*tuple); ok {
		return &tuple{items: out}, nil
	}
	return &List{out}, nil
}

func (st *state) sliceStr(s *Str, lo, hi, step, count int) (Value, error) {
	if err := st.charge(len(s.s) / 16); err != nil {
		return nil, err
	}
	if step == 1 {
		if count == 0 {
			return &Str{safe: s.safe}, nil
		}
		return s.cut(s.offset(lo), s.offset(hi)), nil
	}
	if err := st.alloc(8 * s.count()); err != nil {
		return nil, err
	}
	if err := st.charge(count); err != nil {
		return nil, err
	}
	offs := make([]int, 0, s.count()+1)
	for off := range s.s {
		offs = append(offs, off)
	}
	offs = append(offs, len(s.s))
	b := builder{st: st}
	for i := range count {
		at := lo + i*step
		b.addRange(s, offs[at], offs[at+1])
	}
	return b.value(s.safe)
}

// sliceBounds clamps the bounds of a slice as Python does.
func sliceBounds(bounds [3]Value, n int) (lo, hi, step int, err error) {
	bound := func(v Value, absent, least, most int) (int, error) {
		if isNone(v) {
			return absent, nil
		}
		if b, ok := v.(*bigInt); ok {
			if b.v.Sign() < 0 {
				return least, nil
			}
			return most, nil
		}
		i, ok := asIndex(v)
		if !ok {
			return 0, typeErr("slice indices must be integers or None")
		}
		if i < 0 {
			i = max(i+n, least)
		}
		return min(i, most), nil
	}
	step = 1
	switch v := bounds[2].(type) {
	case NoneType:
	case *bigInt:
		step = n + 1
		if v.v.Sign() < 0 {
			step = -step
		}
	default:
		i, ok := asIndex(v)
		if !ok {
			return 0, 0, 0, typeErr("slice indices must be integers or None")
		}
		step = max(min(i, n+1), -n-1)
	}
	if step == 0 {
		return 0, 0, 0, valueErr("slice step cannot be zero")
	}
	if step > 0 {
		if lo, err = bound(bounds[0], 0, 0, n); err == nil {
			hi, err = bound(bounds[1], n, 0, n)
		}
		return lo, hi, step, err
	}
	if lo, err = bound(bounds[0], n-1, -1, n-1); err == nil {
		hi, err = bound(bounds[1], -1, -1, n-1)
	}
	return lo, hi, step, err
}
