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
