package jinja

// filterFunc applies a filter to a value.
type filterFunc func(st *state, v Value, a *args) (Value, error)

// filters maps names to filters: all of Jinja2 except random, urlize, wordwrap and
// pprint, plus tojson as in transformers and from_json.
var filters map[string]filterFunc

func init() {
	filters = map[string]filterFunc{
		"abs":            absFilter,
		"attr":           attrFilter,
		"batch":          batchFilter,
		"capitalize":     textFilter("capitalize", (*state).capitalize),
		"center":         centerFilter,
		"count":          lengthFilter,
		"d":              defaultFilter,
		"default":        defaultFilter,
		"dictsort":       dictSortFilter,
		"e":              escapeFilter,
		"escape":         escapeFilter,
		"filesizeformat": fileSizeFilter,
		"first":          firstFilter,
		"float":          floatFilter,
		"forceescape":    forceEscapeFilter,
		"format":         formatFilter,
		"from_json":      fromJSON,
		"groupby":        groupByFilter,
		"indent":         indentFilter,
		"int":            intFilter,
		"items":          itemsFilter,
		"join":           joinFilter,
		"last":           lastFilter,
		"length":         lengthFilter,
		"list":           listFilter,
		"lower":          textFilter("lower", (*state).lower),
		"map":            mapFilter,
		"max":            extremeFilter("max", ">"),
		"min":            extremeFilter("min", "<"),
		"reject":         selectFilter("reject", false, false),
		"rejectattr":     selectFilter("rejectattr", false, true),
		"replace":        replaceFilter,
		"reverse":        reverseFilter,
		"round":          roundFilter,
		"safe":           safeFilter,
		"select":         selectFilter("select", true, false),
		"selectattr":     selectFilter("selectattr", true, true),
		"slice":          sliceFilter,
		"sort":           sortFilter,
		"string":         textFilter("string", nil),
		"striptags":      stripTagsFilter,
		"sum":            sumFilter,
		"title":          titleFilter,
		"tojson":         toJSON,
		"trim":           trimFilter,
		"truncate":       truncateFilter,
		"unique":         uniqueFilter,
		"upper":          textFilter("upper", (*state).upper),
		"urlencode":      urlEncodeFilter,
		"wordcount":      wordCountFilter,
		"xmlattr":        xmlAttrFilter,
	}
}

func absFilter(_ *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("abs", 0, 0); err != nil {
		return nil, err
	}
	n, ok := asNumber(v)
	if !ok {
		return nil, typeErr("bad operand type for abs(): '%s'", v.pyType())
	}
	if n.float && (n.f < 0 || n.f == 0) || !n.float && n.int().Sign() < 0 {
		if n.float && n.f == 0 {
			return Float(0), nil
		}
		return n.neg(), nil
	}
	return n.value(), nil
}

// attrFilter looks up an attribute but never a key.
func attrFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("attr", 1, "name")
	if err != nil {
		return nil, err
	}
	name, ok := o[0].(*Str)
	if !ok {
		return nil, typeErr("attribute name must be string, not '%s'", o[0].pyType())
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.use()
	}
	out, ok, err := st.pyAttr(v, name.s)
	if err != nil || ok {
		return out, err
	}
	return missing(v, name), nil
}

func defaultFilter(_ *state, v Value, a *args) (Value, error) {
	o, err := a.bind("default", 0, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if !isUndefined(v) && (o[1] == nil || !truth(o[1]) || truth(v)) {
		return v, nil
	}
	if o[0] == nil {
		return &Str{}, nil
	}
	return o[0], nil
}

func lengthFilter(_ *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("len", 0, 0); err != nil {
		return nil, err
	}
	if l, ok := v.(*loop); ok {
		n, err := l.count()
		return Int(n), err
	}
	n, ok := length(v)
	if !ok {
		return nil, typeErr("object of type '%s' has no len()", v.pyType())
	}
	return Int(n), nil
}

func listFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("list", 0, 0); err != nil {
		return nil, err
	}
	items, err := st.elements(v)
	if err != nil {
		return nil, err
	}
	return &List{items}, nil
}

func firstFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("first", 0, 0); err != nil {
		return nil, err
	}
	next, err := st.iterate(v)
	if err != nil {
		return nil, err
	}
	item, ok, err := next()
	if err != nil || ok {
		return item, err
	}
	return &undefined{msg: "No first item, sequence was empty."}, nil
}

func lastFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("last", 0, 0); err != nil {
		return nil, err
	}
	next, _, err := st.reversed(v)
	if err != nil {
		return nil, err
	}
	item, ok, err := next()
	if err != nil || ok {
		return item, err
	}
	return &undefined{msg: "No last item, sequence was empty."}, nil
}

// reversed is Python's reversed(v), with the name of its result's type.
func (st *state) reversed(v Value) (iterator, string, error) {
	name := v.pyType() + "_reverseiterator"
	switch v.(type) {
	case *Str, *tuple:
		name = "reversed"
	case *List, *Dict, *dictView, *rangeValue, *undefined:
	default:
		return nil, "", typeErr("'%s' object is not reversible", v.pyType())
	}
	n, _ := length(v)
	var at func(i int) (Value, bool, error)
	switch v := v.(type) {
	case *Dict, *dictView:
		items, err := st.elements(v)
		if err != nil {
			return nil, "", err
		}
		at = func(i int) (Value, bool, error) { return items[i], true, nil }
	case *Str:
		items, err := st.elements(v)
		if err != nil {
			return nil, "", err
		}
		for i := range items {
			items[i] = items[i].(*Str).withSafe(v.safe)
		}
		at = func(i int) (Value, bool, error) { return items[i], true, nil }
	default:
		at = func(i int) (Value, bool, error) { return st.element(v, Int(i)) }
	}
	i := n
	return func() (Value, bool, error) {
		if i--; i < 0 {
			return nil, false, nil
		}
		if err := st.charge(1); err != nil {
			return nil, false, err
		}
		return at(i)
	}, name, nil
}

func reverseFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("reverse", 0, 0); err != nil {
		return nil, err
	}
	if s, ok := v.(*Str); ok {
		return st.slice(s, [3]Value{None, None, Int(-1)})
	}
	next, name, err := st.reversed(v)
	if err == nil {
		return &iterValue{name, next}, nil
	}
	items, err := st.elements(v)
	if err != nil {
		return nil, fail(ErrRuntime, "argument must be iterable")
	}
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	return &List{items}, nil
}

func itemsFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("items", 0, 0); err != nil {
		return nil, err
	}
	// the filter returns a generator, so a wrong type is reported when the
	// generator is read
	var next iterator
	return &iterValue{"generator", func() (Value, bool, error) {
		if next == nil {
			switch v := v.(type) {
			case *undefined:
				next = func() (Value, bool, error) { return nil, false, nil }
			case *Dict:
				next = st.iterView(&dictView{"items", v})
			default:
				return nil, false, typeErr("Can only get item pairs from a mapping.")
			}
		}
		return next()
	}}, nil
}

func roundFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("round", 0, "precision", "method")
	if err != nil {
		return nil, err
	}
	precision, method := 0, "common"
	if o[1] != nil {
		s, ok := o[1].(*Str)
		if !ok || s.s != "common" && s.s != "ceil" && s.s != "floor" {
			return nil, fail(ErrRuntime, "method must be common, ceil or floor")
		}
		method = s.s
	}
	n, ok := asNumber(v)
	if !ok {
		return nil, typeErr("type %s doesn't define __round__ method", v.pyType())
	}
	if o[0] != nil && isNone(o[0]) && method == "common" && n.float {
		return floatToInt(roundHalfEven(n.f, 0))
	}
	if o[0] != nil && !(isNone(o[0]) && method == "common") {
		if precision, err = wantInt(o[0]); err != nil {
			return nil, err
		}
	}
	if method == "common" {
		return st.round(n, precision)
	}
	return st.roundTo(v, method, precision)
}

// sumFilter is sum(attribute=none, start=0).
func sumFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("sum", 0, "attribute", "start")
	if err != nil {
		return nil, err
	}
	next, err := st.iterate(v)
	if err != nil {
		return nil, err
	}
	var total Value = Int(0)
	if o[1] != nil {
		total = o[1]
	}
	if isString(total) {
		return nil, typeErr("sum() can't sum strings [use ''.join(seq) instead]")
	}
	get, err := st.getter(o[0])
	if err != nil {
		return nil, err
	}
	for {
		item, ok, err := next()
		if err != nil || !ok {
			return total, err
		}
		if item, err = get(item); err != nil {
			return nil, err
		}
		if total, err = st.binary("+", total, item); err != nil {
			return nil, err
		}
	}
}
