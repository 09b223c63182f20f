package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// textFilter turns a function on strings into a filter without arguments. Values
// that are not strings are converted first.
func textFilter(name string, f func(*state, *Str) (*Str, error)) filterFunc {
	return func(st *state, v Value, a *args) (Value, error) {
		if _, err := a.positional(name, 0, 0); err != nil {
			return nil, err
		}
		s, err := st.softStr(v)
		if err != nil || f == nil {
			return asValue(s, err)
		}
		return asValue(f(st, s))
	}
}

// joinFilter is join(d="", attribute=none).
func joinFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("join", 0, "d", "attribute")
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
	sep := &Str{}
	if o[0] != nil {
		if sep, err = st.str(o[0]); err != nil {
			return nil, err
		}
	}
	b := builder{st: st}
	for n := 0; ; n++ {
		item, ok, err := next()
		if err == nil && ok {
			item, err = get(item)
		}
		if err != nil {
			return nil, err
		}
		if !ok {
			return b.value(false)
		}
		s, err := st.str(item)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			b.add(sep)
		}
		b.add(s)
	}
}

// replaceFilter is replace(old, new, count=none); its result is plain.
func replaceFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("replace", 2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	var s [3]*Str
	for i, x := range []Value{v, o[0], o[1]} {
		if s[i], err = st.str(x); err != nil {
			return nil, err
		}
	}
	count := -1
	if o[2] != nil && !isNone(o[2]) {
		var ok bool
		if count, ok = asIndex(o[2]); !ok {
			return nil, typeErr("'%s' object cannot be interpreted as an integer", o[2].pyType())
		}
	}
	return asValue(st.replace(s[0], s[1], s[2], count))
}

func trimFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("trim", 0, "chars")
	if err != nil {
		return nil, err
	}
	s, err := st.softStr(v)
	if err != nil {
		return nil, err
	}
	return s.strip("strip", o[0], true, true)
}

// titleFilter is title. Words begin after white space and after - ( { [ <.
func titleFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("title", 0, 0); err != nil {
		return nil, err
	}
	s, err := st.softStr(v)
	if err != nil {
		return nil, err
	}
	s = s.plain()
	sep := func(r rune) bool { return isSpace(r) || strings.ContainsRune("-({[<", r) }
	b := builder{st: st}
	for at := 0; at < len(s.s); {
		n := len(s.s) - at - len(strings.TrimLeftFunc(s.s[at:], sep))
		b.addRange(s, at, at+n)
		at += n
		word := strings.IndexFunc(s.s[at:], sep)
		if word < 0 {
			word = len(s.s) - at
		}
		if word == 0 {
			continue
		}
		_, first := utf8.DecodeRuneInString(s.s[at:])
		head, err := st.upper(s.cut(at, at+first))
		if err != nil {
			return nil, err
		}
		tail, err := st.lower(s.cut(at+first, at+word))
		if err != nil {
			return nil, err
		}
		b.add(head)
		b.add(tail)
		at += word
	}
	return b.value(false)
}

// indentFilter is indent(width=4, first=false, blank=false).
func indentFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("indent", 0, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	s, ok := v.(*Str)
	if !ok {
		switch v := v.(type) {
		case *undefined:
			return nil, v.use()
		case *List:
			return nil, fail(ErrRuntime, "'list' object has no attribute 'splitlines'")
		}
		return nil, typeErr("unsupported operand type(s) for +=: '%s' and 'str'", v.pyType())
	}
	in := &Str{s: "    "}
	if o[0] != nil {
		if in, ok = o[0].(*Str); !ok {
			n, ok := asIndex(o[0])
			if !ok {
				return nil, typeErr("can't multiply sequence by non-int of type '%s'", o[0].pyType())
			}
			pad, _, err := st.repeat(&Str{s: " "}, Int(n))
			if err != nil {
				return nil, err
			}
			in = pad.(*Str)
		}
	}
	first := o[1] != nil && truth(o[1])
	blank := o[2] != nil && truth(o[2])
	// Jinja2 appends a newline before it splits the lines
	text := &Str{s: s.s + "\n", typed: s.typed}
	b := builder{st: st}
	for i, l := range text.lines(false) {
		if i > 0 {
			b.lit("\n")
		}
		if i == 0 && first || i > 0 && (blank || l.s != "") {
			b.add(in)
		}
		b.add(l)
	}
	return b.value(s.safe)
}

func centerFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("center", 0, "width")
	if err != nil {
		return nil, err
	}
	s, err := st.softStr(v)
	if err != nil {
		return nil, err
	}
	var width Value = Int(80)
	if o[0] != nil {
		width = o[0]
	}
	return st.justify(s, "center", []Value{width, nil})
}

// truncateFilter is truncate(length=255, killwords=false, end="...", leeway=5).
func truncateFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("truncate", 0, "length", "killwords", "end", "leeway")
	if err != nil {
		return nil, err
	}
	most, leeway, end := 255, 5, &Str{s: "..."}
	ok := true
	if o[0] != nil {
		most, ok = asIndex(o[0])
	}
	if ok && o[3] != nil && !isNone(o[3]) {
		leeway, ok = asIndex(o[3])
	}
	if ok && o[2] != nil {
		end, ok = o[2].(*Str)
	}
	size, sized := length(v)
	if !ok || !sized {
		return nil, typeErr("truncate wants a string and integers, not %s", v.pyType())
	}
	if most < end.count() || leeway < 0 {
		return nil, valueErr("expected length >= %d and leeway >= 0, got %d and %d", end.count(), most, leeway)
	}
	if size-leeway <= most {
		return v, nil
	}
	s, ok := v.(*Str)
	if !ok {
		return nil, typeErr("can only truncate a string, not %s", v.pyType())
	}
	head := s.cut(0, s.offset(most-end.count()))
	if o[1] == nil || !truth(o[1]) {
		if i := strings.LastIndexByte(head.s, ' '); i >= 0 {
			head = head.cut(0, i)
		}
	}
	v, _, err = st.join(head, end)
	return v, err
}

func wordCountFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("wordcount", 0, 0); err != nil {
		return nil, err
	}
	s, err := st.softStr(v)
	if err != nil {
		return nil, err
	}
	n, in := 0, false
	for _, r := range s.s {
		word := r == '_' || isAlnum(r)
		if word && !in {
			n++
		}
		in = word
	}
	return Int(n), st.charge(len(s.s) / 16)
}

// formatFilter is format(*args, **kwargs), which applies the % operator.
func formatFilter(st *state, v Value, a *args) (Value, error) {
	if len(a.pos) > 0 && len(a.names) > 0 {
		return nil, fail(ErrRuntime, "can't handle positional and keyword arguments at the same time")
	}
	s, err := st.softStr(v)
	if err != nil {
		return nil, err
	}
	if len(a.names) == 0 {
		return st.printf(s, &tuple{items: a.pos})
	}
	d := NewDict()
	for i, name := range a.names {
		if err := d.set(st, &Str{s: name}, a.named[i]); err != nil {
			return nil, err
		}
	}
	return st.printf(s, d)
}

// fileSizeFilter is filesizeformat(binary=false).
func fileSizeFilter(_ *state, v Value, a *args) (Value, error) {
	o, err := a.bind("filesizeformat", 0, "binary")
	if err != nil {
		return nil, err
	}
	var size float64
	if s, ok := v.(*Str); ok {
		if size, err = parseFloat(s.s); err != nil {
			return nil, valueErr("could not convert string to float: %q", s.s)
		}
	} else if n, ok := asNumber(v); !ok {
		if u, ok := v.(*undefined); ok {
			return nil, u.use()
		}
		return nil, typeErr("float() argument must be a string or a real number, not '%s'", v.pyType())
	} else if size, err = n.float64(); err != nil {
		return nil, err
	}
	base, units := 1000.0, strings.Fields("kB MB GB TB PB EB ZB YB")
	if o[0] != nil && truth(o[0]) {
		base, units = 1024, strings.Fields("KiB MiB GiB TiB PiB EiB ZiB YiB")
	}
	switch {
	case size == 1:
		return &Str{s: "1 Byte"}, nil
	case size < base:
		return &Str{s: strconv.FormatFloat(math.Trunc(size)+0, 'f', 0, 64) + " Bytes"}, nil
	}
	limit := base
	i := slices.IndexFunc(units, func(string) bool {
		limit *= base
		return size < limit
	})
	if i < 0 {
		i = len(units) - 1
	}
	return &Str{s: floatText(base*size/limit, spec{typ: 'f', prec: 1}) + " " + units[i]}, nil
}
