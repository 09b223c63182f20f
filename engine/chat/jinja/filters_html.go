package jinja

import (
	"bytes"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

func safeFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("safe", 0, 0); err != nil {
		return nil, err
	}
	s, err := st.str(v)
	if err != nil {
		return nil, err
	}
	return s.withSafe(true), nil
}

// escape returns s as Markup. Markup stays as it is, and other strings are
// HTML-escaped.
func (st *state) escape(s *Str) (*Str, error) {
	if s.safe {
		return s, nil
	}
	b := builder{st: st}
	from := 0
	for i := range len(s.s) {
		var esc string
		switch s.s[i] {
		case '&':
			esc = "&amp;"
		case '<':
			esc = "&lt;"
		case '>':
			esc = "&gt;"
		case '\'':
			esc = "&#39;"
		case '"':
			esc = "&#34;"
		default:
			continue
		}
		b.addRange(s, from, i)
		b.write(esc, s.typedAt(i))
		from = i + 1
	}
	b.addRange(s, from, len(s.s))
	out, err := b.str()
	if err != nil {
		return nil, err
	}
	return out.withSafe(true), nil
}

func escapeFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("escape", 0, 0); err != nil {
		return nil, err
	}
	s, err := st.softStr(v)
	if err != nil {
		return nil, err
	}
	return asValue(st.escape(s))
}

func forceEscapeFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("forceescape", 0, 0); err != nil {
		return nil, err
	}
	s, err := st.str(v)
	if err != nil {
		return nil, err
	}
	return asValue(st.escape(s))
}

func stripTagsFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("striptags", 0, 0); err != nil {
		return nil, err
	}
	s, err := st.str(v)
	if err != nil {
		return nil, err
	}
	return st.stripTags(s)
}

// stripTags removes comments and tags, joins white space and resolves HTML
// entities.
func (st *state) stripTags(s *Str) (Value, error) {
	if err := st.charge(len(s.s) / 4); err != nil {
		return nil, err
	}
	text := dropBetween(dropBetween(s.s, "<!--", "-->"), "<", ">")
	text = strings.Join(strings.FieldsFunc(text, isSpace), " ")
	return taint(html.UnescapeString(text), s), nil
}

// dropBetween removes every part from open through end. Parts may overlap, and the
// text on both sides of a removed part may form a new one.
func dropBetween(s, open, end string) string {
	var out []byte
	for s != "" {
		out = append(out, s[0])
		s = s[1:]
		if !bytes.HasSuffix(out, []byte(open)) {
			continue
		}
		i := strings.Index(s, end)
		for k := 1; k < len(end); k++ {
			if strings.HasSuffix(open, end[:k]) && strings.HasPrefix(s, end[k:]) {
				i = -k
			}
		}
		if i == -1 && !strings.HasPrefix(s, end[1:]) {
			break
		}
		out, s = out[:len(out)-len(open)], s[i+len(end):]
	}
	return string(out) + s
}

func urlEncodeFilter(st *state, v Value, a *args) (Value, error) {
	if _, err := a.positional("urlencode", 0, 0); err != nil {
		return nil, err
	}
	next, err := st.iterate(v)
	if s, ok := v.(*Str); ok || err != nil {
		if !ok {
			if s, err = st.str(v); err != nil {
				return nil, err
			}
		}
		return asValue(st.quoteURL(s.plain(), false))
	}
	if d, ok := v.(*Dict); ok {
		next = st.iterView(&dictView{"items", d})
	}
	b := builder{st: st}
	for n := 0; ; n++ {
		item, ok, err := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			return b.value(false)
		}
		pair, err := st.elements(item)
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, valueErr("urlencode wants pairs, got %d values", len(pair))
		}
		if n > 0 {
			b.lit("&")
		}
		for i, part := range pair {
			if i == 1 {
				b.lit("=")
			}
			s, err := st.str(part)
			if err == nil {
				s, err = st.quoteURL(s, true)
			}
			if err != nil {
				return nil, err
			}
			b.add(s)
		}
	}
}

// quoteURL percent-encodes a string. In a query, / is encoded too and a space
// becomes a plus sign.
func (st *state) quoteURL(s *Str, query bool) (*Str, error) {
	return st.mapRunes(s, func(_ int, r rune) string {
		switch {
		case r < utf8.RuneSelf && (isAlnum(r) || strings.ContainsRune("_.-~", r)), r == '/' && !query:
			return string(r)
		case r == ' ' && query:
			return "+"
		}
		out := ""
		for _, c := range []byte(string(r)) {
			out += "%" + strings.ToUpper(strconv.FormatUint(uint64(c)|0x100, 16)[1:])
		}
		return out
	})
}

// xmlAttrFilter is xmlattr(autospace=true).
func xmlAttrFilter(st *state, v Value, a *args) (Value, error) {
	o, err := a.bind("xmlattr", 0, "autospace")
	if err != nil {
		return nil, err
	}
	d, ok := v.(*Dict)
	if !ok {
		if u, ok := v.(*undefined); ok {
			return nil, u.use()
		}
		return nil, fail(ErrRuntime, "'%s' object has no attribute 'items'", v.pyType())
	}
	b := builder{st: st}
	for _, e := range d.entries {
		if isNone(e.val) || isUndefined(e.val) {
			continue
		}
		key, ok := e.key.(*Str)
		if !ok {
			return nil, typeErr("expected string or bytes-like object, got '%s'", e.key.pyType())
		}
		if strings.ContainsAny(key.s, " \t\n\r\f\v/>=") {
			return nil, valueErr("Invalid character in attribute name: %q", key.s)
		}
		if len(b.buf) > 0 || o[0] == nil || truth(o[0]) {
			b.lit(" ")
		}
		val, err := st.softStr(e.val)
		if err != nil {
			return nil, err
		}
		for i, part := range []*Str{key, val} {
			if part, err = st.escape(part); err != nil {
				return nil, err
			}
			b.add(part)
			b.lit([]string{`="`, `"`}[i])
		}
	}
	return b.value(false)
}
