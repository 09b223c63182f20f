package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// optionalStr returns an argument that may be None. The result is nil if the
// argument is absent.
func optionalStr(fn string, v Value) (*Str, error) {
	switch v := v.(type) {
	case nil, NoneType:
		return nil, nil
	case *Str:
		return v, nil
	}
	return nil, typeErr("%s arg must be None or str, not %s", fn, v.pyType())
}

func wantStr(v Value) (*Str, error) {
	s, ok := v.(*Str)
	if !ok {
		return nil, typeErr("must be str, not %s", v.pyType())
	}
	return s, nil
}

func wantInt(v Value) (int, error) {
	n, ok := asIndex(v)
	if !ok {
		return 0, typeErr("'%s' object cannot be interpreted as an integer", v.pyType())
	}
	return n, nil
}

// strip removes white space, or the characters of a set, from the ends.
func (s *Str) strip(fn string, chars Value, left, right bool) (Value, error) {
	set, err := optionalStr(fn, chars)
	if err != nil {
		return nil, err
	}
	in := isSpace
	if set != nil {
		in = func(r rune) bool { return strings.ContainsRune(set.s, r) }
	}
	lo, hi := 0, len(s.s)
	if left {
		lo = hi - len(strings.TrimLeftFunc(s.s, in))
	}
	if right {
		hi = max(lo, len(strings.TrimRightFunc(s.s, in)))
	}
	return s.cut(lo, hi), nil
}

// replace replaces up to count occurrences of old, or all if count is negative. An
// empty old matches between characters.
func (st *state) replace(s, old, with *Str, count int) (*Str, error) {
	if err := st.charge(len(s.s) / 32); err != nil {
		return nil, err
	}
	b := builder{st: st}
	at := 0
	for n := 0; n != count; n++ {
		i := strings.Index(s.s[at:], old.s)
		if i < 0 {
			break
		}
		if old.s == "" && n > 0 {
			if at == len(s.s) {
				break
			}
			_, size := utf8.DecodeRuneInString(s.s[at:])
			b.addRange(s, at, at+size)
			at += size
		}
		b.addRange(s, at, at+i)
		b.add(with)
		at += i + len(old.s)
		if err := st.charge(1); err != nil {
			return nil, err
		}
	}
	b.addRange(s, at, len(s.s))
	out, err := b.str()
	if err != nil {
		return nil, err
	}
	return out.withSafe(s.safe), nil
}

// splitMethod is split or rsplit(sep=none, maxsplit=-1).
func splitMethod(name string, white func(string, int) []span, by func(s, sep string, most int) []span) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		o, err := a.bind(name, 0, "sep", "maxsplit")
		if err != nil {
			return nil, err
		}
		sep, err := optionalStr(name, o[0])
		if err != nil {
			return nil, err
		}
		most := -1
		if o[1] != nil {
			if most, err = wantInt(o[1]); err != nil {
				return nil, err
			}
		}
		if sep != nil && sep.s == "" {
			return nil, valueErr("empty separator")
		}
		// in the worst case, every second byte is a part
		if err := st.charge(len(s.s) / 16); err != nil {
			return nil, err
		}
		var parts []span
		if sep == nil {
			parts = white(s.s, most)
		} else {
			parts = by(s.s, sep.s, most)
		}
		return st.cuts(s, parts)
	}
}

// cuts returns the parts of s as a list.
func (st *state) cuts(s *Str, parts []span) (Value, error) {
	items, err := st.list(5 * len(parts)) // the charged memory includes the strings themselves
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		items = append(items, s.cut(p.lo, p.hi))
	}
	return &List{items}, nil
}

func notSpace(r rune) bool { return !isSpace(r) }

// fields splits s at white space. If most is not negative, it splits at most
// `most` times.
func fields(s string, most int) []span {
	var out []span
	for at := 0; ; {
		i := strings.IndexFunc(s[at:], notSpace)
		if i < 0 {
			return out
		}
		at += i
		n := strings.IndexFunc(s[at:], isSpace)
		if n < 0 || len(out) == most {
			return append(out, span{at, len(s)})
		}
		out = append(out, span{at, at + n})
		at += n
	}
}

// rfields splits like fields, but starts from the right.
func rfields(s string, most int) []span {
	var out []span
	for {
		s = strings.TrimRightFunc(s, isSpace)
		if s == "" {
			break
		}
		from := len(strings.TrimRightFunc(s, notSpace))
		if len(out) == most {
			from = 0
		}
		out = append(out, span{from, len(s)})
		s = s[:from]
	}
	slices.Reverse(out)
	return out
}

func splitBy(s, sep string, most int) []span {
	var out []span
	at := 0
	for len(out) != most {
		i := strings.Index(s[at:], sep)
		if i < 0 {
			break
		}
		out = append(out, span{at, at + i})
		at += i + len(sep)
	}
	return append(out, span{at, len(s)})
}

func rsplitBy(s, sep string, most int) []span {
	var out []span
	for len(out) != most {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		out = append(out, span{i + len(sep), len(s)})
		s = s[:i]
	}
	out = append(out, span{0, len(s)})
	slices.Reverse(out)
	return out
}

// lines splits s at line ends. keep leaves the line ends in the parts.
func (s *Str) lines(keep bool) []*Str {
	var out []*Str
	for at := 0; at < len(s.s); {
		n := strings.IndexFunc(s.s[at:], isLineEnd)
		if n < 0 {
			return append(out, s.cut(at, len(s.s)))
		}
		end := at + n
		_, size := utf8.DecodeRuneInString(s.s[end:])
		if strings.HasPrefix(s.s[end:], "\r\n") {
			size = 2
		}
		if keep {
			out = append(out, s.cut(at, end+size))
		} else {
			out = append(out, s.cut(at, end))
		}
		at = end + size
	}
	return out
}

func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

func linesMethod(st *state, s *Str, a *args) (Value, error) {
	o, err := a.bind("splitlines", 0, "keepends")
	if err != nil {
		return nil, err
	}
	if err := st.charge(len(s.s) / 16); err != nil {
		return nil, err
	}
	parts := s.lines(o[0] != nil && truth(o[0]))
	items, err := st.list(5 * len(parts))
	for _, p := range parts {
		items = append(items, p)
	}
	return &List{items}, err
}

// window returns the part of s between two optional bounds, as byte offsets. ok is
// false if the start is after the end.
func (s *Str) window(lo, hi Value) (span, bool, error) {
	for _, v := range []*Value{&lo, &hi} {
		if *v == nil {
			*v = None
		}
	}
	n := s.count()
	if from, ok := asIndex(lo); ok && from > n {
		return span{}, false, nil
	}
	from, to, _, err := sliceBounds([3]Value{lo, hi, None}, n)
	if err != nil || from > to {
		return span{}, false, err
	}
	return span{s.offset(from), s.offset(to)}, true, nil
}

// affixMethod is startswith or endswith(affix or tuple, start, end).
func affixMethod(name string, has func(s, affix string) bool) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 1, 3)
		if err != nil {
			return nil, err
		}
		w, ok, err := s.window(o[1], o[2])
		if err != nil {
			return nil, err
		}
		affixes := []Value{o[0]}
		if t, ok := o[0].(*tuple); ok {
			affixes = t.items
		}
		if err := st.charge(len(affixes)); err != nil {
			return nil, err
		}
		for _, v := range affixes {
			affix, isStr := v.(*Str)
			if !isStr {
				return nil, typeErr("%s first arg must be str or a tuple of str, not %s", name, v.pyType())
			}
			if ok && has(s.s[w.lo:w.hi], affix.s) {
				return Bool(true), nil
			}
		}
		return Bool(false), nil
	}
}

// findMethod is find, rfind, index or rindex(sub, start, end).
func findMethod(name string, find func(s, sub string) int, must bool) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 1, 3)
		if err != nil {
			return nil, err
		}
		sub, err := wantStr(o[0])
		if err != nil {
			return nil, err
		}
		if err := st.charge(len(s.s) / 16); err != nil {
			return nil, err
		}
		w, ok, err := s.window(o[1], o[2])
		if err != nil {
			return nil, err
		}
		i := -1
		if ok {
			i = find(s.s[w.lo:w.hi], sub.s)
		}
		switch {
		case i >= 0:
			return Int(utf8.RuneCountInString(s.s[:w.lo+i])), nil
		case must:
			return nil, valueErr("substring not found")
		}
		return Int(-1), nil
	}
}

func countMethod(st *state, s *Str, a *args) (Value, error) {
	o, err := a.positional("count", 1, 3)
	if err != nil {
		return nil, err
	}
	sub, err := wantStr(o[0])
	if err != nil {
		return nil, err
	}
	if err := st.charge(len(s.s) / 16); err != nil {
		return nil, err
	}
	w, ok, err := s.window(o[1], o[2])
	if err != nil || !ok {
		return Int(0), err
	}
	return Int(strings.Count(s.s[w.lo:w.hi], sub.s)), nil
}

// partitionMethod is partition or rpartition(sep).
func partitionMethod(name string, find func(s, sub string) int, right bool) strMethod {
	return func(st *state, s *Str, a *args) (Value, error) {
		o, err := a.positional(name, 1, 1)
		if err != nil {
			return nil, err
		}
		sep, err := wantStr(o[0])
		if err != nil {
			return nil, err
		}
		if sep.s == "" {
			return nil, valueErr("empty separator")
		}
		if err := st.charge(len(s.s) / 32); err != nil {
			return nil, err
		}
		none := &Str{safe: s.safe}
		i := find(s.s, sep.s)
		switch {
		case i >= 0:
			end := i + len(sep.s)
			return &tuple{items: []Value{s.cut(0, i), s.cut(i, end), s.cut(end, len(s.s))}}, nil
		case right:
			return &tuple{items: []Value{none, none, s}}, nil
		}
		return &tuple{items: []Value{s, none, none}}, nil
	}
}
