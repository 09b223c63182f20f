package chat

import (
	"slices"
	"strings"
	"unicode"
)

// mistralCall reads what follows [TOOL_CALLS]: a JSON list, or a name with an
// optional id and its arguments.
func mistralCall(c *cursor) ([]Call, error) {
	c.space()
	first, err := c.peek()
	if err != nil {
		return nil, err
	}
	if first == '[' || first == '{' {
		return jsonCalls()(c)
	}
	var call Call
	if call.Name, err = c.name(); err != nil {
		return nil, err
	}
	c.space()
	n, err := c.oneOf("[CALL_ID]", "[ARGS]")
	if err != nil {
		return nil, err
	}
	if n == 0 {
		if call.ID, err = c.until("[ARGS]"); err != nil {
			return nil, err
		}
	}
	c.space()
	call.Arguments, err = c.arguments()
	return []Call{call}, err
}

// deepSeekCalls reads calls up to the end of their section.
func deepSeekCalls(c *cursor) ([]Call, error) {
	return section(c, "<｜tool▁call▁begin｜>", "<｜tool▁calls▁end｜>", deepSeekCall)
}

// section reads calls, each opened by a tag, up to a closing tag.
func section(c *cursor, open, end string, one reader) ([]Call, error) {
	var out []Call
	for {
		c.space()
		if len(out) > 0 && c.final && c.i == len(c.s) {
			return out, nil // the end was the last token
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

// deepSeekCall reads function<sep>NAME, a fence of JSON, or NAME<sep>JSON.
func deepSeekCall(c *cursor) ([]Call, error) {
	name, err := c.until("<｜tool▁sep｜>")
	if err != nil {
		return nil, err
	}
	name = strings.TrimSpace(name)
	if name == "function" {
		if name, err = c.until("\n"); err != nil {
			return nil, err
		}
		name = strings.TrimSpace(name)
	}
	if !validName(name) {
		return nil, errBad
	}
	c.space()
	fenced, err := c.oneOf("```json", "```")
	if err != nil {
		return nil, err
	}
	c.space()
	args, err := c.arguments()
	if err != nil {
		return nil, err
	}
	if fenced >= 0 {
		c.space()
		if err := c.lit("```"); err != nil {
			return nil, err
		}
	}
	return []Call{{Name: name, Arguments: args}}, c.close("<｜tool▁call▁end｜>")
}

func kimiCalls(c *cursor) ([]Call, error) {
	return section(c, "<|tool_call_begin|>", "<|tool_calls_section_end|>", kimiCall)
}

// kimiCall reads functions.NAME:NUMBER and the arguments; the whole of the
// first is the call's id.
func kimiCall(c *cursor) ([]Call, error) {
	id, err := c.until("<|tool_call_argument_begin|>")
	if err != nil {
		return nil, err
	}
	id = strings.TrimSpace(id)
	name := strings.TrimPrefix(id, "functions.")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	if !validName(name) {
		return nil, errBad
	}
	c.space()
	args, err := c.arguments()
	if err != nil {
		return nil, err
	}
	return []Call{{ID: id, Name: name, Arguments: args}}, c.close("<|tool_call_end|>")
}

// apertusCalls reads a list of objects whose one key is the function.
func apertusCalls(c *cursor) ([]Call, error) {
	c.space()
	if err := c.lit("["); err != nil {
		return nil, err
	}
	var out []Call
	for {
		c.space()
		n, err := c.oneOf("]", ",", `{"`)
		switch {
		case err != nil:
			return nil, err
		case n < 0:
			return nil, c.endOr(errBad)
		case n == 0:
			return out, c.close("<|tools_suffix|>")
		case n == 1:
			continue
		}
		name, err := c.until(`"`)
		if err != nil {
			return nil, err
		}
		c.space()
		if err := c.lit(":"); err != nil {
			return nil, err
		}
		c.space()
		args, err := c.arguments()
		if err != nil {
			return nil, err
		}
		if !validName(name) {
			return nil, errBad
		}
		c.space()
		if err := c.lit("}"); err != nil {
			return nil, err
		}
		out = append(out, Call{Name: name, Arguments: args})
	}
}

// actionFence reads Action: and a fence of JSON. Cohere's directly-answer is
// no call.
func actionFence(c *cursor) ([]Call, error) {
	c.space()
	if err := c.lit("```json"); err != nil {
		return nil, err
	}
	calls, err := jsonCalls("```")(c)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(calls, func(call Call) bool { return call.Name == "directly-answer" || call.Name == "directly_answer" }), nil
}

// bareJSON tells whether an answer begins with a JSON document that may be a
// call: its first key is one that calls have.
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

// readJSON reads calls that no marker opens, one after the other, with
// semicolons between them. Their functions must be on offer, or the answer is
// a document like any other.
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

// known reports whether a function is on offer.
func (c *cursor) known(name string) bool {
	_, ok := c.p.schemas[name]
	return ok
}

// fence reads a call in a fence of code: JSON or Python.
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

// startsName reports whether a text begins with a name, behind white space.
func startsName(s string) bool {
	s = strings.TrimLeftFunc(s, unicode.IsSpace)
	return s != "" && (s[0] == '_' || unicode.IsLetter(rune(s[0])))
}

// pythonTag reads what follows <|python_tag|>: JSON, NAME.call(k=v), or code
// for a tool that runs Python.
func pythonTag(c *cursor) ([]Call, error) {
	c.space()
	first, err := c.peek()
	if err != nil {
		return nil, err
	}
	if first == '{' || first == '[' {
		return readJSON(c)
	}
	if !c.final {
		return nil, errMore // the code ends with the answer
	}
	whole := c.rest()
	inner := &cursor{s: whole, final: true, p: c.p}
	if calls, err := pythonCalls()(inner); err == nil && len(calls) > 0 && strings.TrimSpace(inner.rest()) == "" &&
		!slices.ContainsFunc(calls, func(call Call) bool { return !c.known(call.Name) }) {
		c.i = len(c.s)
		return calls, nil
	}
	for _, name := range []string{"python", "code_interpreter", "ipython"} {
		if c.known(name) {
			c.i = len(c.s)
			var args argList
			args.add(codeParameter(c.p.schemas[name]), quote(strings.TrimSpace(whole)))
			return []Call{{Name: name, Arguments: args.String()}}, nil
		}
	}
	return nil, errBad
}

// codeParameter is the name of a Python tool's one parameter.
func codeParameter(params *Dict) string {
	if props, ok := lookup(params, "properties").(*Dict); ok {
		for name := range props.All() {
			return name
		}
	}
	return "code"
}

// gemmaBare tells whether an answer begins with a call in JSON or in Python's
// notation in brackets.
func gemmaBare(s string, final bool) verdict {
	if v := bareJSON("{[")(s, final); v != no {
		return v
	}
	if !strings.HasPrefix(s, "[") {
		return no
	}
	in := strings.TrimLeft(s[1:], " \t\r\n")
	n := strings.IndexFunc(in, func(r rune) bool { return r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	switch {
	case n < 0 && !final && (in == "" || startsName(in)):
		return maybe
	case n > 0 && in[n] == '(' && startsName(in):
		return yes
	}
	return no
}

func readGemma(c *cursor) ([]Call, error) {
	if strings.HasPrefix(c.rest(), "[") && startsName(c.rest()[1:]) {
		calls, err := pythonCalls()(c)
		if err != nil {
			return nil, err
		}
		for _, call := range calls {
			if !c.known(call.Name) {
				return nil, errBad
			}
		}
		return calls, nil
	}
	return readJSON(c)
}
