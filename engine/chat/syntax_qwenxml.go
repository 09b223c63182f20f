package chat

import "strings"

// QwenXML is the syntax
//
//	<tool_call><function=f><parameter=a>1</parameter></function></tool_call>
const QwenXML ParserKind = "qwen-xml"

func init() {
	register(Syntax{
		Kind:   QwenXML,
		Detect: []Sign{{90, []string{"<function=", "<parameter="}}},
		Marks: []mark{
			opens("<tool_call>", tagCall("</tool_call>")), opens("<seed:tool_call>", tagCall("</seed:tool_call>")),
			opens("<function=", functionXML("</tool_call>")),
		},
		Frame: frame{sep: "\n"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.tagged(rule, params, "<tool_call>\n<function="+name+">\n", "<parameter=%s>\n", "\n</parameter>", "\n", "</function>\n</tool_call>")
		},
	})
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
			if n := len(args.buf); n > 0 && tag != "" && strings.HasPrefix(c.rest(), tag) {
				break // the function's own closing tag is missing
			}
			n, err := c.oneOf("<parameter=", "</function>")
			if err != nil {
				return nil, err
			}
			if n < 0 && !c.final && strings.HasPrefix(tag, c.rest()) {
				return nil, errMore
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
			value, err := c.parameter(call.Name, tag)
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

// parameter reads a value and its closing tag. A closing tag is part of the value
// if neither a parameter nor the end of the call follows it. If the closing tag is
// missing, the function's next parameter ends the value.
func (c *cursor) parameter(function, tag string) (string, error) {
	const end = "</parameter>"
	s := c.rest()
	props, _ := lookup(c.p.schemas[function], "properties").(*Dict)
	for at := 0; ; {
		n := strings.Index(s[at:], end)
		limit := len(s)
		if n >= 0 {
			limit = at + n
		}
		if k := nextParameter(s[:limit], props); k >= 0 {
			c.i += k
			return s[:k], nil
		}
		if n < 0 {
			return "", c.end()
		}
		follows, more := follow(strings.TrimLeft(s[limit+len(end):], " \t\r\n"), "<parameter=", "</function>", tag)
		if more && !c.final {
			return "", errMore
		}
		if follows || more {
			c.i += limit + len(end)
			return s[:limit], nil
		}
		at = limit + len(end)
	}
}

// nextParameter returns the offset of the function's next parameter that starts a
// line, or -1.
func nextParameter(s string, props *Dict) int {
	const open = "\n<parameter="
	for at := 0; ; {
		n := strings.Index(s[at:], open)
		if n < 0 {
			return -1
		}
		name, _, whole := strings.Cut(s[at+n+len(open):], ">")
		if whole && lookup(props, strings.Trim(strings.TrimSpace(name), `"'`)) != nil {
			return at + n
		}
		at += n + len(open)
	}
}

// follow reports whether s begins with one of the tags, or may do so once more text
// arrives.
func follow(s string, tags ...string) (yes, more bool) {
	for _, tag := range tags {
		if tag == "" {
			continue
		}
		yes = yes || strings.HasPrefix(s, tag)
		more = more || strings.HasPrefix(tag, s)
	}
	return yes, more
}
