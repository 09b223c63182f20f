package chat

import (
	"slices"
	"strings"
	"unicode"
)

// jsonCalls reads calls from one or more JSON documents, followed by a closing
// tag. If there is other text around the documents, the calls must fit offered
// functions.
func jsonCalls(tags ...string) reader {
	return func(c *cursor) ([]Call, error) {
		var out []Call
		extra, slip := len(tags) > 0, false
		if extra {
			at := c.i
			if err := c.jsonStart(); err != nil {
				return nil, err
			}
			slip = strings.TrimSpace(c.s[at:c.i]) != ""
		}
		for {
			at := c.i
			c.space()
			first, err := c.peek()
			if err != nil {
				return nil, err
			}
			if first != '{' && (first != '[' || out != nil) {
				c.i = at
				break
			}
			doc, err := c.object()
			if err != nil {
				return nil, err
			}
			calls, err := callsOf(doc)
			if err != nil {
				return nil, err
			}
			out = append(out, calls...)
		}
		if extra {
			at := c.i
			if err := c.jsonEnd(tags); err != nil {
				return nil, err
			}
			slip = slip || strings.TrimSpace(c.s[at:c.i]) != ""
			if err := c.close(tags...); err != nil {
				return nil, err
			}
			if slip && !c.p.allFit(out) {
				return nil, errBad
			}
		}
		return out, nil
	}
}

// jsonStart skips what models wrongly write before a call: a code fence or a second
// brace.
func (c *cursor) jsonStart() error {
	c.space()
	if _, err := c.oneOf("```json", "```"); err != nil {
		return err
	}
	c.space()
	if len(c.rest()) < 2 && !c.final {
		return errMore
	}
	if strings.HasPrefix(c.rest(), "{{") {
		c.i++
	}
	return nil
}

// jsonEnd skips what models wrongly write after a call, braces and a fence, if the
// closing tag follows.
func (c *cursor) jsonEnd(tags []string) error {
	s := strings.TrimLeft(c.rest(), "} \t\r\n")
	s = strings.TrimLeft(strings.TrimPrefix(s, "```"), " \t\r\n")
	follows, more := follow(s, tags...)
	if _, fence := follow(s, "```"); fence && s != "" {
		more = true
	}
	switch {
	case more && !follows && !c.final:
		return errMore
	case follows || s == "":
		c.i = len(c.s) - len(s)
	}
	return nil
}

// endOr returns err, unless the text has ended and may continue.
func (c *cursor) endOr(err error) error {
	if c.i == len(c.s) {
		return c.end()
	}
	return err
}

func validName(s string) bool {
	return s != "" && len(s) <= 256 && strings.IndexFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`<>{}[]()"'=|`, r)
	}) < 0
}

// invokes reads <invoke name="F"> <parameter name="KEY">VALUE</parameter>…
// </invoke>… and the closing tag. prefix precedes every tag's name. The
// attribute string="true" or string="false" decides whether a parameter is a
// string.
func invokes(prefix, tag string) reader {
	open, end := "<"+prefix+`invoke name="`, "</"+prefix+"invoke>"
	param, paramEnd := "<"+prefix+`parameter name="`, "</"+prefix+"parameter>"
	one := func(c *cursor) (Call, error) {
		name, err := c.until(`">`)
		if err != nil {
			return Call{}, err
		}
		call := Call{Name: name}
		if !validName(name) {
			return call, errBad
		}
		var args argList
		for {
			c.space()
			n, err := c.oneOf(param, end)
			if err != nil {
				return call, err
			}
			if n < 0 {
				return call, c.endOr(errBad)
			}
			if n == 1 {
				call.Arguments = args.String()
				return call, nil
			}
			head, err := c.until(">")
			if err != nil {
				return call, err
			}
			value, err := c.until(paramEnd)
			if err != nil {
				return call, err
			}
			key, attrs, ok := strings.Cut(head, `"`)
			if !ok {
				return call, errBad
			}
			switch {
			case strings.Contains(attrs, `string="true"`):
				args.add(key, quote(value))
			default:
				args.add(key, c.p.typed(name, key, value))
			}
		}
	}
	return func(c *cursor) ([]Call, error) {
		var out []Call
		for {
			c.space()
			n, err := c.oneOf(open, tag)
			if err != nil {
				return nil, err
			}
			if n < 0 {
				return nil, c.endOr(errBad)
			}
			if n == 1 {
				return out, nil
			}
			call, err := one(c)
			if err != nil {
				return nil, err
			}
			out = append(out, call)
		}
	}
}

// section reads calls up to a closing tag. Each call is opened by its own tag.
func section(c *cursor, open, end string, one reader) ([]Call, error) {
	var out []Call
	for {
		c.space()
		if len(out) > 0 && c.final && c.i == len(c.s) {
			return out, nil // the closing tag was the last token of the answer
		}
		n, err := c.oneOf(open, end)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return nil, c.endOr(errBad)
		}
		if n == 1 {
			return out, nil
		}
		calls, err := one(c)
		if err != nil {
			return nil, err
		}
		out = append(out, calls...)
	}
}

// bareJSON reports whether an answer begins with a JSON document that may be a call
// because its first key is one that calls have.
func bareJSON(first string) func(string, bool) verdict {
	keys := []string{"name", "type", "function", "tool_calls", "tool_call", "function_call", "parameters", "arguments", "id"}
	return func(s string, final bool) verdict {
		open := maybe
		if final {
			open = no
		}
		if s == "" {
			return open
		}
		if !strings.ContainsRune(first, rune(s[0])) {
			return no
		}
		in := strings.TrimLeft(s, "[ \t\r\n")
		if in == "" {
			return open
		}
		if in[0] != '{' {
			return no
		}
		if in = strings.TrimLeft(in[1:], " \t\r\n"); in == "" {
			return open
		}
		if in[0] != '"' {
			return no
		}
		key, _, ok := strings.Cut(in[1:], `"`)
		if ok && slices.Contains(keys, key) {
			return yes
		}
		if !ok && slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, key) }) {
			return open
		}
		return no
	}
}

// readJSON reads calls that no marker opens, one after another with semicolons
// between them. If a function is not on offer, the answer is an ordinary
// document.
func readJSON(c *cursor) ([]Call, error) {
	var out []Call
	for {
		doc, err := c.object()
		if err != nil {
			return nil, err
		}
		calls, err := callsOf(doc)
		if err != nil {
			return nil, err
		}
		for _, call := range calls {
			if !c.known(call.Name) {
				return nil, errBad
			}
		}
		out = append(out, calls...)
		at := c.i
		c.space()
		semicolon, err := c.maybe(";")
		if err != nil {
			return nil, err
		}
		c.space()
		next, err := c.peek()
		if err != nil {
			return nil, err
		}
		if next == 0 {
			return out, nil
		}
		if next != '{' {
			if semicolon {
				return nil, errBad
			}
			c.i = at
			return out, nil
		}
	}
}

// last returns a marker for JSON that counts as a call only at the end of an
// answer, if its functions are on offer and their arguments fit. Elsewhere, such
// JSON after text or in a code fence may be an example. start is the part of the
// marker that belongs to the JSON.
func last(tag, start string) mark {
	return mark{text: tag, last: true, read: func(c *cursor) ([]Call, error) {
		in := &cursor{s: start + c.rest(), final: c.final, p: c.p}
		in.space()
		calls, err := readJSON(in)
		if err != nil {
			return nil, err
		}
		in.space()
		if strings.HasPrefix(tag, "```") {
			if err := in.lit("```"); err != nil {
				return nil, err
			}
			in.space()
		}
		switch next, err := in.peek(); {
		case err != nil:
			return nil, err
		case next != 0 || !c.p.allFit(calls):
			return nil, errBad
		}
		c.i = len(c.s)
		return calls, nil
	}}
}

// known reports whether a function is on offer.
func (c *cursor) known(name string) bool {
	_, ok := c.p.schemas[name]
	return ok
}

// fence reads a call in a code fence, as JSON or Python.
func fence(c *cursor) ([]Call, error) {
	c.space()
	first, err := c.peek()
	if err != nil {
		return nil, err
	}
	if first == '{' || first == '[' && !startsName(c.rest()[1:]) {
		calls, err := readJSON(c)
		if err != nil {
			return nil, err
		}
		c.space()
		return calls, c.lit("```")
	}
	return pythonCalls("```")(c)
}

// startsName reports whether text begins with a name, after optional white space.
func startsName(s string) bool {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	return s != "" && (s[0] == '_' || unicode.IsLetter(rune(s[0])))
}
