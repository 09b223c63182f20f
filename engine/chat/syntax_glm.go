package chat

import "strings"

// GLM is the syntax
//
//	<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>
const GLM ParserKind = "glm"

func init() {
	register(Syntax{
		Kind:   GLM,
		Detect: []Sign{{80, []string{"<arg_key>", "<tool_call>"}}},
		Marks:  []mark{opens("<tool_call>", tagCall("</tool_call>"))},
		Frame:  frame{sep: "\n"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.tagged(rule, params, "<tool_call>"+name+"\n", "<arg_key>%s</arg_key>\n<arg_value>", "</arg_value>", "\n", "</tool_call>")
		},
	})
}

// glmCall reads NAME <arg_key>KEY</arg_key> <arg_value>VALUE</arg_value>… and
// the closing tag.
func glmCall(c *cursor, tag string) ([]Call, error) {
	n := strings.IndexByte(c.rest(), '<')
	if n < 0 && len(strings.Fields(c.rest())) > 1 {
		return nil, errBad // the name of a function has no spaces
	}
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
		if n < 0 && c.final && strings.HasPrefix(tag, c.rest()) && len(args.buf)+len(c.rest()) > 0 {
			c.i = len(c.s) // the closing tag was truncated
			break
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
