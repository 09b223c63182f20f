package chat

import (
	"slices"
	"strings"
	"unicode"
)

// syntax is what a parser looks for in the content.
type syntax struct {
	marks []mark
	// bare looks at the start of an answer for a call that no marker opens;
	// read reads it. nil: there is no such form.
	bare func(s string, final bool) verdict
	read reader
}

// verdict is the answer to whether a text begins with a call.
type verdict uint8

const (
	no verdict = iota
	maybe
	yes
)

// syntaxOf returns what a parser looks for. Without tools on offer that is
// reasoning only.
func syntaxOf(o ParserOptions, tools bool) syntax {
	var s syntax
	if tools {
		s = callSyntax(o.Kind)
		if o.Loose && o.Kind != Generic {
			generic := callSyntax(Generic)
			for _, m := range generic.marks {
				if !slices.ContainsFunc(s.marks, func(have mark) bool { return have.text == m.text }) {
					s.marks = append(s.marks, m)
				}
			}
			s.bare, s.read = generic.bare, generic.read
		}
	}
	if o.Tags.Open != "" {
		s.marks = append(s.marks, mark{text: strings.TrimSpace(o.Tags.Open), reasoning: true})
	}
	switch o.Kind {
	case CommandR:
		s.marks = append(s.marks, drops("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>")...)
	case Gemma4:
		s.marks = append(s.marks, drops("<|tool_response>", "<turn|>")...)
	case Phi4:
		s.marks = append(s.marks, drops("<response>", "</response>")...)
	}
	return s
}

func drops(tags ...string) []mark {
	var out []mark
	for _, t := range tags {
		out = append(out, mark{text: t})
	}
	return out
}

func callSyntax(kind ParserKind) syntax {
	opens := func(tag string, read reader) mark { return mark{text: tag, read: read} }
	hermes := opens("<tool_call>", tagCall("</tool_call>"))
	switch kind {
	case Generic:
		return syntax{[]mark{hermes, opens("```json", fence)}, bareJSON("{["), readJSON}
	case Llama3:
		return syntax{
			[]mark{opens("<|python_tag|>", pythonTag), opens("<function=", functionJSON)},
			bareJSON("{["), readJSON,
		}
	case Hermes, GLM:
		return syntax{marks: []mark{hermes}}
	case QwenXML:
		return syntax{marks: []mark{
			hermes, opens("<seed:tool_call>", tagCall("</seed:tool_call>")),
			opens("<function=", functionXML("</tool_call>")),
		}}
	case Mistral:
		return syntax{marks: []mark{opens("[TOOL_CALLS]", mistralCall)}}
	case DeepSeek:
		return syntax{marks: []mark{
			opens("<｜tool▁calls▁begin｜>", deepSeekCalls), opens("<｜tool▁call▁begin｜>", deepSeekCall),
		}}
	case DSML:
		return syntax{marks: []mark{
			opens("<｜DSML｜tool_calls>", invokes("｜DSML｜", "</｜DSML｜tool_calls>")),
			opens("<｜DSML｜function_calls>", invokes("｜DSML｜", "</｜DSML｜function_calls>")),
		}}
	case MiniMax:
		return syntax{marks: []mark{opens("<minimax:tool_call>", invokes("", "</minimax:tool_call>"))}}
	case Gemma:
		return syntax{
			[]mark{opens("```tool_code", fence), opens("```json", fence)},
			gemmaBare, readGemma,
		}
	case Gemma4:
		return syntax{marks: []mark{opens("<|tool_call>", gemma4Call)}}
	case Phi4:
		return syntax{marks: []mark{
			opens("<|tool_call|>", jsonCalls("<|/tool_call|>", "</|tool_call|>", "<|tool_call_end|>")),
			opens("functools", jsonCalls()),
		}}
	case CommandR:
		return syntax{marks: []mark{
			opens("<|START_ACTION|>", jsonCalls("<|END_ACTION|>")), opens("Action:", actionFence),
		}}
	case Kimi:
		return syntax{marks: []mark{
			opens("<|tool_calls_section_begin|>", kimiCalls), opens("<|tool_call_begin|>", kimiCall),
		}}
	case LFM2:
		return syntax{marks: []mark{opens("<|tool_call_start|>", pythonCalls("<|tool_call_end|>"))}}
	case Apertus:
		return syntax{marks: []mark{opens("<|tools_prefix|>", apertusCalls)}}
	case TagList:
		return syntax{marks: []mark{
			opens("<TOOLCALL>", jsonCalls("</TOOLCALL>")), opens("<tool_calls>", jsonCalls("</tool_calls>")),
		}}
	case Functools:
		return syntax{marks: []mark{opens("functools", jsonCalls())}}
	case Functionary:
		return syntax{marks: []mark{opens("<function=", functionJSON)}}
	}
	return syntax{}
}

// jsonCalls reads calls in JSON, one document or several, and a closing tag.
func jsonCalls(tags ...string) reader {
	return func(c *cursor) ([]Call, error) {
		var out []Call
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
		if len(tags) > 0 {
			if err := c.close(tags...); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

// tagCall reads what stands in <tool_call>: JSON, Qwen's XML or GLM's pairs of
// keys and values.
func tagCall(tag string) reader {
	return func(c *cursor) ([]Call, error) {
		c.space()
		first, err := c.peek()
		if err != nil {
			return nil, err
		}
		switch first {
		case '{', '[':
			return jsonCalls(tag)(c)
		case '<':
			if err := c.lit("<function="); err != nil {
				return nil, err
			}
			return functionXML(tag)(c)
		}
		return glmCall(c, tag)
	}
}

// functionXML reads NAME> <parameter=KEY>VALUE</parameter>… </function> and a
// closing tag. A newline around a value is markup.
func functionXML(tag string) reader {
	return func(c *cursor) ([]Call, error) {
		name, err := c.until(">")
		if err != nil {
			return nil, err
		}
		call := Call{Name: strings.Trim(strings.TrimSpace(name), `"'`)}
		if !validName(call.Name) {
			return nil, errBad
		}
		var args argList
		for {
			c.space()
			n, err := c.oneOf("<parameter=", "</function>")
			if err != nil {
				return nil, err
			}
			if n < 0 {
				return nil, c.endOr(errBad)
			}
			if n == 1 {
				break
			}
			key, err := c.until(">")
			if err != nil {
				return nil, err
			}
			value, err := c.until("</parameter>")
			if err != nil {
				return nil, err
			}
			value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
			key = strings.Trim(strings.TrimSpace(key), `"'`)
			args.add(key, c.p.typed(call.Name, key, value))
		}
		call.Arguments = args.String()
		return []Call{call}, c.close(tag)
	}
}

// endOr is err, unless the text has ended and may go on.
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

// glmCall reads NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value>… and
// the closing tag.
func glmCall(c *cursor, tag string) ([]Call, error) {
	n := strings.IndexByte(c.rest(), '<')
	if n < 0 {
		return nil, c.end()
	}
	call := Call{Name: strings.TrimSpace(c.rest()[:n])}
	c.i += n
	if !validName(call.Name) {
		return nil, errBad
	}
	var args argList
	for {
		c.space()
		n, err := c.oneOf("<arg_key>", tag)
		if err != nil {
			return nil, err
		}
		if n < 0 {
			return nil, c.endOr(errBad)
		}
		if n == 1 {
			break
		}
		key, err := c.until("</arg_key>")
		if err != nil {
			return nil, err
		}
		c.space()
		if err := c.lit("<arg_value>"); err != nil {
			return nil, err
		}
		value, err := c.until("</arg_value>")
		if err != nil {
			return nil, err
		}
		key = strings.TrimSpace(key)
		args.add(key, c.p.typed(call.Name, key, value))
	}
	call.Arguments = args.String()
	return []Call{call}, nil
}

// functionJSON reads NAME>{…}</function>.
func functionJSON(c *cursor) ([]Call, error) {
	name, err := c.until(">")
	if err != nil {
		return nil, err
	}
	if name = strings.TrimSpace(name); !validName(name) {
		return nil, errBad
	}
	c.space()
	args, err := c.arguments()
	if err != nil {
		return nil, err
	}
	return []Call{{Name: name, Arguments: args}}, c.close("</function>")
}

// invokes reads <invoke name="F"> <parameter name="KEY">VALUE</parameter>…
// </invoke>… and the closing tag; prefix stands before every tag's name. Where
// a parameter says string="true" or "false", that decides.
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
