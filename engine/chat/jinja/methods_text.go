package jinja

import (
	"unicode/utf8"
)

// replaceMethod is replace(old, new, count=-1). Markup escapes the inserted text.
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

// joinMethod is sep.join(strings). Markup escapes the joined strings.
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
