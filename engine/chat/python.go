package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxArgDepth limits the nesting of values in notations other than JSON.
const maxArgDepth = 64

// pythonCalls reads calls in Python's notation. They look like f(a=1), and may
// be in a list, in print(), or one per line. If a closing tag is given, it must
// follow.
func pythonCalls(tags ...string) reader {
	return func(c *cursor) ([]Call, error) {
		c.space()
		list, err := c.maybe("[")
		if err != nil {
			return nil, err
		}
		var out []Call
		for {
			c.space()
			if list {
				n, err := c.oneOf("]", ",")
				if err != nil {
					return nil, err
				}
				if n == 0 {
					break
				}
				if n == 1 {
					continue
				}
			}
			if !list && len(out) > 0 {
				next, err := c.peek()
				if err != nil {
					return nil, err
				}
				if next == 0 || next != '_' && !unicode.IsLetter(rune(next)) {
					break
				}
			}
			call, err := c.pythonCall(0)
			if err != nil {
				return nil, err
			}
			out = append(out, call)
		}
		if len(tags) > 0 {
			c.space()
			if err := c.lit(tags[0]); err != nil && !(c.final && c.i == len(c.s)) {
				return nil, err
			}
		}
		return out, nil
	}
}

// pythonCall reads NAME(KEY=VALUE, …), or the call inside print(…).
func (c *cursor) pythonCall(depth int) (Call, error) {
	name, err := c.name()
	if err != nil {
		return Call{}, err
	}
	call := Call{Name: strings.TrimSuffix(name, ".call")}
	if err := c.lit("("); err != nil {
		return call, err
	}
	if name == "print" && depth == 0 {
		c.space()
		inner, err := c.pythonCall(depth + 1)
		if err != nil {
			return inner, err
		}
		c.space()
		return inner, c.lit(")")
	}
	var args argList
	for {
		c.space()
		n, err := c.oneOf(")", ",")
		if err != nil {
			return call, err
		}
		if n == 0 {
			call.Arguments = args.String()
			return call, nil
		}
		if n == 1 {
			continue
		}
		key, err := c.name()
		if err != nil {
			return call, err
		}
		c.space()
		if err := c.lit("="); err != nil {
			return call, err
		}
		c.space()
		value, err := c.pythonValue(0)
		if err != nil {
			return call, err
		}
		args.add(key, value)
	}
}

// pythonValue reads a literal and returns it as JSON.
func (c *cursor) pythonValue(depth int) (string, error) {
	if depth > maxArgDepth {
		return "", errBad
	}
	first, err := c.peek()
	if err != nil {
		return "", err
	}
	switch first {
	case '"', '\'':
		return c.pythonString(first)
	case '[':
		c.i++
		return c.items("[", "]", func() (string, error) { return c.pythonValue(depth + 1) })
	case '(':
		c.i++
		return c.items("[", ")", func() (string, error) { return c.pythonValue(depth + 1) })
	case '{':
		c.i++
		return c.items("{", "}", func() (string, error) {
			key, err := c.pythonValue(depth + 1)
			if err != nil || !strings.HasPrefix(key, `"`) {
				return "", c.endOr(errBad)
			}
			c.space()
			if err := c.lit(":"); err != nil {
				return "", err
			}
			c.space()
			value, err := c.pythonValue(depth + 1)
			return key + ": " + value, err
		})
	}
	return c.word(",)]} \t\r\n:")
}

// items reads elements up to a closing bracket and returns them as JSON.
func (c *cursor) items(open, end string, item func() (string, error)) (string, error) {
	var parts []string
	for {
		c.space()
		n, err := c.oneOf(end, ",")
		if err != nil {
			return "", err
		}
		if n == 0 {
			return open + strings.Join(parts, ", ") + map[string]string{"[": "]", "{": "}"}[open], nil
		}
		if n == 1 {
			continue
		}
		s, err := item()
		if errors.Is(err, errClosed) {
			return open + strings.Join(parts, ", ") + map[string]string{"[": "]", "{": "}"}[open], nil
		}
		if err != nil {
			return "", err
		}
		parts = append(parts, s)
	}
}

// word reads a number or a constant up to one of the given characters.
func (c *cursor) word(ends string) (string, error) {
	n := strings.IndexAny(c.rest(), ends)
	if n < 0 {
		return "", c.end()
	}
	w := c.rest()[:n]
	switch w {
	case "True", "true":
		w = "true"
	case "False", "false":
		w = "false"
	case "None", "null":
		w = "null"
	default:
		if !json.Valid([]byte(w)) || strings.HasPrefix(w, `"`) {
			return "", errBad
		}
	}
	c.i += n
	return w, nil
}

// pythonString reads a string in single, double or triple quotes.
func (c *cursor) pythonString(quoteChar byte) (string, error) {
	end := strings.Repeat(string(quoteChar), 3)
	triple, err := c.maybe(end)
	if err != nil {
		return "", err
	}
	if !triple {
		end = end[:1]
		c.i++
	}
	var b strings.Builder
	for c.i < len(c.s) {
		if done, err := c.maybe(end); err != nil || done {
			return quote(b.String()), err
		}
		if c.s[c.i] != '\\' {
			b.WriteByte(c.s[c.i])
			c.i++
			continue
		}
		if err := c.pythonEscape(&b); err != nil {
			return "", err
		}
	}
	return "", c.end()
}

// pythonEscape reads a backslash escape and writes the character.
func (c *cursor) pythonEscape(b *strings.Builder) error {
	if c.i+1 >= len(c.s) {
		return c.end()
	}
	e := c.s[c.i+1]
	if plain, ok := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", '\\': `\`, '\'': "'", '"': `"`, '/': "/", '\n': ""}[e]; ok {
		b.WriteString(plain)
		c.i += 2
		return nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[e]
	if digits == 0 {
		b.WriteByte('\\')
		c.i++
		return nil
	}
	if c.i+2+digits > len(c.s) {
		return c.end()
	}
	r := rune(0)
	for _, d := range []byte(c.s[c.i+2 : c.i+2+digits]) {
		v := strings.IndexByte("0123456789abcdef", d|0x20)
		if d >= '0' && d <= '9' {
			v = int(d - '0')
		}
		if v < 0 || v > 9 && !(d|0x20 >= 'a' && d|0x20 <= 'f') {
			return errBad
		}
		r = r<<4 | rune(v)
	}
	if !utf8.ValidRune(r) {
		r = utf8.RuneError
	}
	b.WriteRune(r)
	c.i += 2 + digits
	return nil
}
