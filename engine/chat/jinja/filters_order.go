package jinja

import (
	"slices"
	"strings"
)

// sortOrder returns the order in which keys are sorted, stably.
func (st *state) sortOrder(keys []Value, reverse bool) ([]int, error) {
	if err := st.items(len(keys)); err != nil {
		return nil, err
	}
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		if failed != nil {
			return 0
		}
		a, b := keys[i], keys[j]
		if reverse {
			a, b = b, a
		}
		less, err := st.order("<", a, b, 0)
		if err == nil && !less {
			less, err = st.order("<", b, a, 0)
			less = !less
			if err == nil && less {
				return 0
			}
			if err == nil {
				return 1
			}
		}
		failed = err
		return -1
	})
	return order, failed
}

func (st *state) pick(items []Value, order []int) []Value {
	out := make([]Value, len(items))
	for i, j := range order {
		out[i] = items[j]
	}
	return out
}

// sortFilter is sort(reverse, case_sensitive, attribute): attribute may be
// several paths separated by commas.
func sortFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("sort", 0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	items, err := st.elements(v)
	if err != nil {
		return nil, err
	}
	paths := []Value{o[2]}
	if s, ok := o[2].(*Str); ok {
		paths = nil
		for _, p := range strings.Split(s.s, ",") {
			paths = append(paths, &Str{s: p})
		}
	}
	fold := st.fold(o[1])
	keys := make([]Value, len(items))
	for i := range keys {
		keys[i] = &List{make([]Value, len(paths))}
	}
	for p, path := range paths {
		get, err := st.getter(path)
		if err != nil {
			return nil, err
		}
		for i, item := range items {
			k, err := get(item)
			if err == nil {
				k, err = fold(k)
			}
			if err != nil {
				return nil, err
			}
			keys[i].(*List).items[p] = k
		}
	}
	order, err := st.sortOrder(keys, o[0] != nil && truth(o[0]))
	if err != nil {
		return nil, err
	}
	return &List{st.pick(items, order)}, nil
}

// dictSortFilter is dictsort(case_sensitive, by, reverse).
func dictSortFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("dictsort", 0, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	by := "key"
	if o[1] != nil {
		s, ok := o[1].(*Str)
		if !ok || s.s != "key" && s.s != "value" {
			return nil, fail(ErrRuntime, `You can only sort by either "key" or "value"`)
		}
		by = s.s
	}
	d, ok := v.(*Dict)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return nil, u.use()
		}
		return nil, fail(ErrRuntime, "'%s' object has no attribute 'items'", v.pyType())
	}
	pairs, err := st.drain(st.iterView(&dictView{"items", d}))
	if err != nil {
		return nil, err
	}
	fold := st.fold(o[0])
	keys := make([]Value, len(pairs))
	for i, e := range d.entries {
		keys[i] = e.key
		if by == "value" {
			keys[i] = e.val
		}
		if keys[i], err = fold(keys[i]); err != nil {
			return nil, err
		}
	}
	order, err := st.sortOrder(keys, o[2] != nil && truth(o[2]))
	if err != nil {
		return nil, err
	}
	return &List{st.pick(pairs, order)}, nil
}

// groupByFilter is groupby(attribute, default, case_sensitive).
func groupByFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("groupby", 1, "attribute", "default", "case_sensitive")
	if err != nil {
		return nil, err
	}
	items, err := st.elements(v)
	if err != nil {
		return nil, err
	}
	get, err := st.getterOr(o[0], o[1])
	if err != nil {
		return nil, err
	}
	fold := st.fold(o[2])
	labels, keys := make([]Value, len(items)), make([]Value, len(items))
	for i, item := range items {
		if labels[i], err = get(item); err == nil {
			keys[i], err = fold(labels[i])
		}
		if err != nil {
			return nil, err
		}
	}
	order, err := st.sortOrder(keys, false)
	if err != nil {
		return nil, err
	}
	out := &List{}
	for n, i := range order {
		same := false
		if n > 0 {
			if same, err = st.equal(keys[order[n-1]], keys[i]); err != nil {
				return nil, err
			}
		}
		if !same {
			group := &tuple{items: []Value{labels[i], &List{}}, names: []string{"grouper", "list"}}
			out.Append(group)
		}
		members := out.items[out.Len()-1].(*tuple).items[1].(*List)
		members.Append(items[i])
	}
	return out, st.items(len(items) + 4*out.Len())
}

// uniqueFilter is unique(case_sensitive, attribute).
func uniqueFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("unique", 0, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	get, err := st.getter(o[1])
	if err != nil {
		return nil, err
	}
	fold := st.fold(o[0])
	seen := NewDict()
	return st.lazy(v, func(item Value) (Value, bool, error) {
		k, err := get(item)
		if err == nil {
			k, err = fold(k)
		}
		if err != nil {
			return nil, false, err
		}
		n := seen.Len()
		err = seen.set(st, k, None)
		return item, seen.Len() > n, err
	}), nil
}

// extremeFilter is min or max(case_sensitive, attribute).
func extremeFilter(name, op string) filterFunc {
	return func(st *state, v Value, a *args) (Value, error) {
		o, err := a.bind(name, 0, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		next, err := st.iterate(v)
		if err != nil {
			return nil, err
		}
		get, err := st.getter(o[1])
		if err != nil {
			return nil, err
		}
		fold := st.fold(o[0])
		var best, bestKey Value
		for {
			item, ok, err := next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			k, err := get(item)
			if err == nil {
				k, err = fold(k)
			}
			better := best == nil
			if err == nil && !better {
				better, err = st.order(op, k, bestKey, 0)
			}
			if err != nil {
				return nil, err
			}
			if better {
				best, bestKey = item, k
			}
		}
		if best == nil {
			return &undefined{msg: "No aggregated item, sequence was empty."}, nil
		}
		return best, nil
	}
}
