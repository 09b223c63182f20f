package jinja

import (
	"slices"
)

// mutators lists methods that templates must not call, because they change a
// list or mapping. append and pop of a list are allowed.
var mutators = map[string][]string{
	"list": {"clear", "reverse", "insert", "sort", "extend", "remove"},
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
}

func (l *List) method(name string) (Value, bool) {
	switch name {
	case "append":
		return method(name, func(st *state, a *args) (Value, error) {
			o, err := a.positional(name, 1, 1)
			if err != nil {
				return nil, err
			}
			l.Append(o[0])
			return None, st.items(1)
		}), true
	case "pop":
		return method(name, l.pop), true
	case "copy":
		return method(name, func(st *state, a *args) (Value, error) {
			if _, err := a.positional(name, 0, 0); err != nil {
				return nil, err
			}
			return &List{slices.Clone(l.items)}, st.items(len(l.items))
		}), true
	}
	if slices.Contains(mutators["list"], name) {
		return unsafe(l, name), true
	}
	return sequenceMethod(l, name)
}

// pop is list.pop(index=-1).
func (l *List) pop(_ *state, a *args) (Value, error) {
	o, err := a.positional("pop", 0, 1)
	if err != nil {
		return nil, err
	}
	i := -1
	if o[0] != nil {
		if i, err = wantInt(o[0]); err != nil {
			return nil, err
		}
	}
	if len(l.items) == 0 {
		return nil, valueErr("pop from empty list")
	}
	if i < 0 {
		i += len(l.items)
	}
	if i < 0 || i >= len(l.items) {
		return nil, valueErr("pop index out of range")
	}
	v := l.items[i]
	l.items = slices.Delete(l.items, i, i+1)
	return v, nil
}

// sequenceMethod returns the method count or index of a sequence.
func sequenceMethod(seq Value, name string) (Value, bool) {
	if name != "count" && name != "index" {
		return nil, false
	}
	return method(name, func(st *state, a *args) (Value, error) {
		most := 1
		if name == "index" {
			most = 3
		}
		o, err := a.positional(name, 1, most)
		if err != nil {
			return nil, err
		}
		items, err := st.elements(seq)
		if err != nil {
			return nil, err
		}
		lo, hi := 0, len(items)
		if name == "index" {
			for i := 1; i < 3; i++ {
				if o[i] == nil {
					o[i] = None
				}
			}
			if lo, hi, _, err = sliceBounds([3]Value{o[1], o[2], None}, len(items)); err != nil {
				return nil, err
			}
		}
		n := 0
		for i := lo; i < hi; i++ {
			eq, err := st.equal(items[i], o[0])
			if err != nil {
				return nil, err
			}
			if eq && name == "index" {
				return Int(i), nil
			}
			if eq {
				n++
			}
		}
		if name == "index" {
			return nil, valueErr("value is not in %s", seq.pyType())
		}
		return Int(n), nil
	}), true
}

func (d *Dict) method(name string) (Value, bool) {
	switch name {
	case "keys", "values", "items":
		return method(name, func(_ *state, a *args) (Value, error) {
			_, err := a.positional(name, 0, 0)
			return &dictView{name, d}, err
		}), true
	case "get":
		return method(name, func(st *state, a *args) (Value, error) {
			o, err := a.positional(name, 1, 2)
			if err != nil {
				return nil, err
			}
			k, err := hashKey(st, o[0])
			if err != nil {
				return nil, err
			}
			if v, ok := d.find(k); ok {
				return v, nil
			}
			if o[1] == nil {
				return None, nil
			}
			return o[1], nil
		}), true
	case "copy":
		return method(name, func(st *state, a *args) (Value, error) {
			_, err := a.positional(name, 0, 0)
			if err == nil {
				err = st.alloc(48 * d.Len())
			}
			return d.Clone(), err
		}), true
	}
	if slices.Contains(mutators["dict"], name) {
		return unsafe(d, name), true
	}
	return nil, false
}
