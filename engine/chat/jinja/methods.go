package jinja

import (
	"html"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// strMethod computes a method of a string.
type strMethod func(st *state, s *Str, a *args) (Value, error)

// strMethods are the methods of Python's str that give text back or look at
// it; encode, translate and maketrans are left out.
var strMethods map[string]strMethod

// markupMethods are what Markup has beyond str.
var markupMethods map[string]strMethod

func init() {
	strMethods = map[string]strMethod{
		"capitalize":   plainMethod("capitalize", (*state).capitalize),
		"casefold":     plainMethod("casefold", func(st *state, s *Str) (*Str, error) { return st.mapRunes(s, foldRune) }),
		"center":       justifyMethod("center"),
		"count":        countMethod,
		"endswith":     affixMethod("endswith", strings.HasSuffix),
		"expandtabs":   expandTabsMethod,
		"find":         findMethod("find", strings.Index, false),
		"format":       formatMethod,
		"format_map":   formatMapMethod,
		"index":        findMethod("index", strings.Index, true),
		"isalnum":      allMethod("isalnum", isAlnum),
		"isalpha":      allMethod("isalpha", unicode.IsLetter),
		"isascii":      checkMethod("isascii", func(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 }) }),
		"isdecimal":    allMethod("isdecimal", unicode.IsDigit),
		"isdigit":      allMethod("isdigit", isDigit),
		"isidentifier": checkMethod("isidentifier", isIdentifier),
		"islower":      checkMethod("islower", func(s string) bool { return allCased(s, isLower, isUpper) }),
		"isnumeric":    allMethod("isnumeric", isNumeric),
		"isprintable":  checkMethod("isprintable", func(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return !printable(r) }) }),
		"isspace":      allMethod("isspace", isSpace),
		"istitle":      checkMethod("istitle", isTitle),
		"isupper":      checkMethod("isupper", func(s string) bool { return allCased(s, isUpper, isLower) }),
		"join":         joinMethod,
		"ljust":        justifyMethod("ljust"),
		"lower":        plainMethod("lower", (*state).lower),
		"lstrip":       stripMethod("lstrip", true, false),
		"partition":    partitionMethod("partition", strings.Index, false),
		"removeprefix": removeMethod("removeprefix", true),
		"removesuffix": removeMethod("removesuffix", false),
		"replace":      replaceMethod,
		"rfind":        findMethod("rfind", strings.LastIndex, false),
		"rindex":       findMethod("rindex", strings.LastIndex, true),
		"rjust":        justifyMethod("rjust"),
		"rpartition":   partitionMethod("rpartition", strings.LastIndex, true),
		"rsplit":       splitMethod("rsplit", rfields, rsplitBy),
		"rstrip":       stripMethod("rstrip", false, true),
		"split":        splitMethod("split", fields, splitBy),
		"splitlines":   linesMethod,
		"startswith":   affixMethod("startswith", strings.HasPrefix),
		"strip":        stripMethod("strip", true, true),
		"swapcase":     plainMethod("swapcase", (*state).swapcase),
		"title":        plainMethod("title", (*state).titled),
		"upper":        plainMethod("upper", (*state).upper),
		"zfill":        zfillMethod,
	}
	markupMethods = map[string]strMethod{
		"striptags": func(st *state, s *Str, a *args) (Value, error) {
			if _, err := a.positional("striptags", 0, 0); err != nil {
				return nil, err
			}
			return st.stripTags(s)
		},
		"unescape": func(st *state, s *Str, a *args) (Value, error) {
			if _, err := a.positional("unescape", 0, 0); err != nil {
				return nil, err
			}
			return taint(html.UnescapeString(s.s), s), st.alloc(len(s.s))
		},
	}
}

// method returns a string's method bound to it.
func (s *Str) method(name string) (Value, bool) {
	m, ok := strMethods[name]
	if !ok && s.safe {
		m, ok = markupMethods[name]
	}
	if !ok {
		return nil, false
	}
	return method(name, func(st *state, a *args) (Value, error) { return m(st, s, a) }), true
}

func plainMethod(name string, f func(*state, *Str) (*Str, error)) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		if _, err := a.positional(name, 0, 0); err != nil {
			return nil, err
		}
		return asValue(f(st, s))
	}
}

func checkMethod(name string, f func(string) bool) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		if _, err := a.positional(name, 0, 0); err != nil {
			return nil, err
		}
		return Bool(f(s.s)), st.charge(len(s.s) / 16)
	}
}

// allMethod holds for strings with characters, all of one kind.
func allMethod(name string, kind func(rune) bool) strMethod {
	return checkMethod(name, func(s string) bool { return s != "" && strings.TrimLeftFunc(s, kind) == "" })
}

// allCased reports whether s has a letter of the case and none of the other.
func allCased(s string, want, other func(rune) bool) bool {
	return strings.ContainsFunc(s, want) &&
		!strings.ContainsFunc(s, func(r rune) bool { return other(r) || unicode.IsTitle(r) })
}

func isIdentifier(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return (r == '_' || unicode.IsLetter(r)) && s != "" && strings.TrimLeftFunc(s, isWord) == ""
}

// isTitle reports whether capitals start words and only they do.
func isTitle(s string) bool {
	any, behind := false, false
	for _, r := range s {
		switch {
		case isUpper(r) || unicode.IsTitle(r):
			if behind {
				return false
			}
			any, behind = true, true
		case isLower(r):
			if !behind {
				return false
			}
			any = true
		default:
			behind = false
		}
	}
	return any
}

func stripMethod(name string, left, right bool) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 0, 1)
		if err != nil {
			return nil, err
		}
		if err := st.charge(len(s.s) / 32); err != nil {
			return nil, err
		}
		return s.strip(name, o[0], left, right)
	}
}

// removeMethod is removeprefix or removesuffix.
func removeMethod(name string, prefix bool) strMethod {
	return func(_ *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 1, 1)
		if err != nil {
			return nil, err
		}
		affix, err := wantStr(o[0])
		switch {
		case err != nil:
			return nil, err
		case prefix && strings.HasPrefix(s.s, affix.s):
			return s.cut(len(affix.s), len(s.s)), nil
		case !prefix && strings.HasSuffix(s.s, affix.s):
			return s.cut(0, len(s.s)-len(affix.s)), nil
		}
		return s, nil
	}
}

// replaceMethod is replace(old, new, count=-1); Markup escapes what it puts in.
func replaceMethod(st *state, s *Str, a *args) (Value, error) {
	o, err := a.positional("replace", 2, 3)
	if err != nil {
		return nil, err
	}
	old, err := wantStr(o[0])
	if err != nil {
		return nil, err
	}
	with, ok := o[1].(*Str)
	if s.safe {
		if with, err = st.softStr(o[1]); err == nil {
			with, err = st.escape(with)
		}
		if err != nil {
			return nil, err
		}
	} else if !ok {
		return nil, typeErr("replace() argument 2 must be str, not %s", o[1].pyType())
	}
	count := -1
	if o[2] != nil {
		if count, err = wantInt(o[2]); err != nil {
			return nil, err
		}
	}
	return asValue(st.replace(s, old, with, max(count, -1)))
}

// joinMethod is sep.join(strings); Markup escapes what it joins.
func joinMethod(st *state, s *Str, a *args) (Value, error) {
	o, err := a.positional("join", 1, 1)
	if err != nil {
		return nil, err
	}
	next, err := st.iterate(o[0])
	if err != nil {
		return nil, typeErr("can only join an iterable")
	}
	b := builder{st: st}
	for n := 0; ; n++ {
		item, ok, err := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return b.value(s.safe)
		}
		part, ok := item.(*Str)
		if s.safe {
			if part, err = st.softStr(item); err == nil {
				part, err = st.escape(part)
			}
			if err != nil {
				return nil, err
			}
		} else if !ok {
			return nil, typeErr("sequence item %d: expected str instance, %s found", n, item.pyType())
		}
		if n > 0 {
			b.add(s)
		}
		b.add(part)
	}
}

func justifyMethod(name string) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 1, 2)
		if err != nil {
			return nil, err
		}
		return st.justify(s, name, o)
	}
}

// justify is center, ljust or rjust(width, fill=" ").
func (st *state) justify(s *Str, name string, o []Value) (Value, error) {
	width, err := wantInt(o[0])
	if err != nil {
		return nil, err
	}
	fill := &Str{s: " "}
	if o[1] != nil {
		if fill, err = wantStr(o[1]); err != nil {
			return nil, err
		}
		if s.safe {
			if fill, err = st.escape(fill); err != nil {
				return nil, err
			}
		}
		if fill.count() != 1 {
			return nil, typeErr("The fill character must be exactly one character long")
		}
	}
	room := max(width-s.count(), 0)
	left := 0
	switch name {
	case "rjust":
		left = room
	case "center":
		left = room/2 + room&width&1
	}
	before, _, err := st.repeat(fill, Int(left))
	if err != nil {
		return nil, err
	}
	after, _, err := st.repeat(fill, Int(room-left))
	if err != nil {
		return nil, err
	}
	b := builder{st: st}
	b.add(before.(*Str))
	b.add(s)
	b.add(after.(*Str))
	return b.value(s.safe)
}

func zfillMethod(st *state, s *Str, a *args) (Value, error) {
	o, err := a.positional("zfill", 1, 1)
	if err != nil {
		return nil, err
	}
	width, err := wantInt(o[0])
	if err != nil {
		return nil, err
	}
	zeros, _, err := st.repeat(&Str{s: "0"}, Int(width-s.count()))
	if err != nil {
		return nil, err
	}
	sign := 0
	if s.s != "" && (s.s[0] == '-' || s.s[0] == '+') {
		sign = 1
	}
	b := builder{st: st}
	b.addRange(s, 0, sign)
	b.add(zeros.(*Str))
	b.addRange(s, sign, len(s.s))
	return b.value(s.safe)
}

func expandTabsMethod(st *state, s *Str, a *args) (Value, error) {
	o, err := a.bind("expandtabs", 0, "tabsize")
	if err != nil {
		return nil, err
	}
	size := 8
	if o[0] != nil {
		if size, err = wantInt(o[0]); err != nil {
			return nil, err
		}
	}
	b := builder{st: st}
	column := 0
	for i, r := range s.s {
		switch r {
		case '\t':
			n := 0
			if size > 0 {
				n = size - column%size
			}
			pad, _, err := st.repeat(&Str{s: " "}, Int(n))
			if err != nil {
				return nil, err
			}
			b.add(pad.(*Str))
			column += n
		default:
			if column++; r == '\n' || r == '\r' {
				column = 0
			}
			b.addRange(s, i, i+utf8.RuneLen(r))
		}
	}
	return b.value(s.safe)
}

// mutators are the methods that change a list or mapping; except append and
// pop of a list a template may not use them.
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

// sequenceMethod returns the methods count and index of a sequence.
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
