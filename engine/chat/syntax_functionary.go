package chat

import "strings"

// Functionary is the syntax
//
//	<function=f>{"a": 1}</function>
const Functionary ParserKind = "functionary"

func init() {
	register(Syntax{
		Kind:   Functionary,
		Detect: []Sign{{230, []string{"<function="}}},
		Marks:  []mark{opens("<function=", functionJSON)},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.wrapped(rule, "<function="+name+">", "</function>"), nil
		},
	})
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
