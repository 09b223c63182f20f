package jinja

import (
	"fmt"
	"strconv"
	"strings"
)

// formatter implements str.format. It looks up attributes and elements in the
// same way as templates.
type formatter struct {
	st     *state
	source *Str
	args   []Value
	named  *Dict
	auto   int // next automatic field number; -1 after a field with an explicit number
}

// formatMethod is str.format(*args, **kwargs).
func formatMethod(st *state, s *Str, a *args) (Value, error) {
	named := NewDict()
	for i, name := range a.names {
		if err := named.set(st, &Str{s: name}, a.named[i]); err != nil {
			return nil, err
		}
	}
	return st.formatWith(s, a.pos, named)
}

// formatMapMethod is str.format_map(mapping).
func formatMapMethod(st *state, s *Str, a *args) (Value, error) {
	v, err := a.positional("format_map", 1, 1)
	if err != nil {
		return nil, err
	}
	d, ok := v[0].(*Dict)
	if !ok {
		d = NewDict()
	}
	return st.formatWith(s, nil, d)
}

func (st *state) formatWith(s *Str, pos []Value, named *Dict) (Value, error) {
	f := &formatter{st: st, source: s, args: pos, named: named}
	b := builder{st: st}
	if err := f.run(&b, s, 3); err != nil {
		return nil, err
	}
	return b.value(s.safe)
}

// run formats s. depth bounds the fields nested in specifications.
func (f *formatter) run(b *builder, s *Str, depth int) error {
	if depth == 0 {
		return valueErr("Max string recursion exceeded")
	}
	for at := 0; at < len(s.s); {
		i := strings.IndexAny(s.s[at:], "{}")
		if i < 0 {
			b.addRange(s, at, len(s.s))
			break
		}
		i += at
		b.addRange(s, at, i)
		if i+1 < len(s.s) && s.s[i+1] == s.s[i] {
			b.addRange(s, i, i+1)
			at = i + 2
			continue
		}
		if s.s[i] == '}' {
			return valueErr("Single '}' encountered in format string")
		}
		end, err := fieldEnd(s.s, i+1)
		if err != nil {
			return err
		}
		if err := f.field(b, s.cut(i+1, end), depth); err != nil {
			return err
		}
		at = end + 1
	}
	return b.err
}

// fieldEnd returns the index of the brace that closes the field starting at from.
func fieldEnd(s string, from int) (int, error) {
	depth, bracket := 1, false
	for i := from; i < len(s); i++ {
		switch c := s[i]; {
		case bracket:
			bracket = c != ']'
		case c == '[' && depth == 1:
			bracket = true
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i, nil
			}
		}
	}
	return 0, valueErr("expected '}' before end of string")
}

// field formats name[!conversion][:specification].
func (f *formatter) field(b *builder, field *Str, depth int) error {
	name, conv, format := field.s, "", &Str{}
	end, bracket := len(name), false
	for i := range len(name) {
		c := name[i]
		if bracket = bracket && c != ']' || c == '['; !bracket && (c == ':' || c == '!') {
			end = i
			break
		}
	}
	rest := name[end:]
	name = name[:end]
	if strings.HasPrefix(rest, "!") {
		if len(rest) < 2 || len(rest) > 2 && rest[2] != ':' {
			return valueErr("expected ':' after conversion specifier")
		}
		conv, rest = rest[1:2], rest[2:]
	}
	if rest != "" {
		format = field.cut(len(field.s)-len(rest)+1, len(field.s))
	}
	v, err := f.lookup(name)
	if err != nil {
		return err
	}
	if v, err = f.convert(v, conv); err != nil {
		return err
	}
	inner := builder{st: f.st}
	if err := f.run(&inner, format, depth-1); err != nil {
		return err
	}
	if !f.source.safe {
		return f.st.format(b, v, string(inner.buf))
	}
	return f.escaped(b, v, string(inner.buf))
}

// escaped formats a field of a Markup string.
func (f *formatter) escaped(b *builder, v Value, format string) error {
	if s, ok := v.(*Str); ok && s.safe {
		if format != "" {
			return valueErr("Unsupported format specification for Markup.")
		}
		b.add(s)
		return b.err
	}
	part := builder{st: f.st}
	if err := f.st.format(&part, v, format); err != nil {
		return err
	}
	s, err := part.str()
	if err != nil {
		return err
	}
	if s, err = f.st.escape(s); err != nil {
		return err
	}
	b.add(s)
	return b.err
}

func (f *formatter) convert(v Value, conv string) (Value, error) {
	switch conv {
	case "":
		return v, nil
	case "s":
		return asValue(f.st.str(v))
	case "r", "a":
		b := builder{st: f.st}
		if err := f.st.repr(&b, v, 0); err != nil {
			return nil, err
		}
		s, err := b.str()
		if err != nil || conv == "r" {
			return asValue(s, err)
		}
		return asValue(f.st.mapRunes(s, func(_ int, r rune) string {
			if r < 0x80 {
				return string(r)
			}
			return asciiEscape(r)
		}))
	}
	return nil, valueErr("Unknown conversion specifier %s", conv)
}

// asciiEscape writes a non-ASCII character as Python's ascii() does.
func asciiEscape(r rune) string {
	switch {
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// lookup resolves a field name: a number or name, then .attr and [key].
func (f *formatter) lookup(name string) (Value, error) {
	end := strings.IndexAny(name, ".[")
	if end < 0 {
		end = len(name)
	}
	v, err := f.first(name[:end])
	rest := name[end:]
	for err == nil && rest != "" {
		if rest[0] == '.' {
			rest = rest[1:]
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, valueErr("Empty attribute in format string")
			}
			v, err = f.st.attr(v, rest[:end])
			rest = rest[end:]
			continue
		}
		if rest[0] != '[' {
			return nil, valueErr("Only '.' or '[' may follow ']' in format field specifier")
		}
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			return nil, valueErr("Missing ']' in format string")
		}
		if end == 1 {
			return nil, valueErr("Empty attribute in format string")
		}
		var key Value = &Str{s: rest[1:end]}
		if n, err := strconv.ParseUint(rest[1:end], 10, 62); err == nil {
			key = Int(n)
		}
		v, err = f.st.item(v, key)
		rest = rest[end+1:]
	}
	return v, err
}

func (f *formatter) first(name string) (Value, error) {
	n, err := strconv.ParseUint(name, 10, 31)
	number := int(n)
	switch {
	case name == "":
		if f.auto < 0 {
			return nil, valueErr("cannot switch from manual field specification to automatic field numbering")
		}
		number = f.auto
		f.auto++
	case err == nil:
		if f.auto > 0 {
			return nil, valueErr("cannot switch from automatic field numbering to manual field specification")
		}
		f.auto = -1
	default:
		if v, ok := f.named.Get(name); ok {
			return v, nil
		}
		return nil, valueErr("key '%s' not found", name)
	}
	if number >= len(f.args) {
		return nil, valueErr("Replacement index %d out of range for positional args tuple", number)
	}
	return f.args[number], nil
}
