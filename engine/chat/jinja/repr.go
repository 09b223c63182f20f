package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// str is Python's str(v).
func (st *state) str(v Value) (*Str, error) {
	switch v := v.(type) {
	case *Str:
		return v.plain(), nil
	case *undefined:
		return &Str{}, nil
	case NoneType, Bool, Int, *bigInt, Float:
		return &Str{s: scalarRepr(v)}, nil
	}
	b := builder{st: st}
	if err := st.repr(&b, v, 0); err != nil {
		return nil, err
	}
	return b.str()
}

// softStr is markupsafe's soft_str: str(v), except that Markup stays Markup.
func (st *state) softStr(v Value) (*Str, error) {
	if s, ok := v.(*Str); ok {
		return s, nil
	}
	return st.str(v)
}

// repr appends Python's repr(v).
func (st *state) repr(b *builder, v Value, depth int) error {
	if depth > maxNest {
		return limitErr("printing a value nested deeper than %d", maxNest)
	}
	if err := st.charge(1); err != nil {
		return err
	}
	switch v := v.(type) {
	case *Str:
		if v.safe {
			b.lit("Markup(")
		}
		reprStr(b, v)
		if v.safe {
			b.lit(")")
		}
	case *List:
		return st.reprItems(b, "[", v.items, "]", depth)
	case *tuple:
		if len(v.items) == 1 {
			return st.reprItems(b, "(", v.items, ",)", depth)
		}
		return st.reprItems(b, "(", v.items, ")", depth)
	case *Dict:
		return st.reprDict(b, v, depth)
	case *dictView:
		items, err := st.elements(v)
		if err != nil {
			return err
		}
		return st.reprItems(b, v.pyType()+"([", items, "])", depth)
	case *namespace:
		b.lit("<Namespace ")
		if err := st.reprDict(b, v.attrs, depth); err != nil {
			return err
		}
		b.lit(">")
	default:
		b.lit(plainRepr(v))
	}
	return b.err
}

func (st *state) reprItems(b *builder, open string, items []Value, end string, depth int) error {
	b.lit(open)
	for i, item := range items {
		if i > 0 {
			b.lit(", ")
		}
		if err := st.repr(b, item, depth+1); err != nil {
			return err
		}
	}
	b.lit(end)
	return b.err
}

func (st *state) reprDict(b *builder, d *Dict, depth int) error {
	b.lit("{")
	for i, e := range d.entries {
		if i > 0 {
			b.lit(", ")
		}
		if err := st.repr(b, e.key, depth+1); err != nil {
			return err
		}
		b.lit(": ")
		if err := st.repr(b, e.val, depth+1); err != nil {
			return err
		}
	}
	b.lit("}")
	return b.err
}

// scalarRepr writes None, booleans and numbers.
func scalarRepr(v Value) string {
	switch v := v.(type) {
	case Bool:
		if v {
			return "True"
		}
		return "False"
	case Int:
		return strconv.FormatInt(int64(v), 10)
	case *bigInt:
		return v.v.String()
	case Float:
		return floatRepr(float64(v))
	}
	return "None"
}

// plainRepr writes values that do not contain others. Where Python prints an
// address, it writes a fixed one.
func plainRepr(v Value) string {
	switch v := v.(type) {
	case *undefined:
		return "Undefined"
	case *rangeValue:
		if v.step == 1 {
			return fmt.Sprintf("range(%d, %d)", v.start, v.stop)
		}
		return fmt.Sprintf("range(%d, %d, %d)", v.start, v.stop, v.step)
	case *iterValue:
		return fmt.Sprintf("<%s object at 0x0>", v.name)
	case *macro:
		if v.def.name == "" {
			return "<Macro anonymous>"
		}
		return fmt.Sprintf("<Macro '%s'>", v.def.name)
	case *loop:
		return v.repr()
	case *function:
		return fmt.Sprintf("<%s %s at 0x0>", v.kind, v.name)
	}
	return scalarRepr(v)
}

// reprStr appends a quoted string. The quoted text keeps its marks.
func reprStr(b *builder, s *Str) {
	quote := byte('\'')
	if strings.Contains(s.s, "'") && !strings.Contains(s.s, `"`) {
		quote = '"'
	}
	b.lit(string(quote))
	from := 0
	for i, r := range s.s {
		esc := escapeRune(r, quote)
		if esc == "" {
			continue
		}
		b.addRange(s, from, i)
		b.write(esc, s.typedAt(i))
		from = i + len(string(r))
	}
	b.addRange(s, from, len(s.s))
	b.lit(string(quote))
}

// escapeRune returns the escape that Python's repr writes for a character, or "" if
// repr writes the character itself.
func escapeRune(r rune, quote byte) string {
	switch {
	case r == rune(quote), r == '\\':
		return `\` + string(r)
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case printable(r):
		return ""
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// printable is Python's str.isprintable for one character.
func printable(r rune) bool { return r == ' ' || unicode.IsPrint(r) }

// floatRepr is Python's repr(f): the shortest digits that parse to f again.
func floatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
