package chat

import "strings"

// Mistral is the syntax
//
//	[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}], or [TOOL_CALLS]f[ARGS]{"a": 1}
const Mistral ParserKind = "mistral"

func init() {
	register(Syntax{
		Kind:   Mistral,
		Detect: []Sign{{30, []string{"[TOOL_CALLS]"}}},
		Marks:  []mark{token("[TOOL_CALLS]", mistralCall)},
		Frame:  frame{open: "[TOOL_CALLS][", sep: ", ", close: "]"},
		Call:   jsonCall("arguments"),
	})
}

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
	if call.Arguments, err = c.arguments(); err != nil {
		return nil, err
	}
	return []Call{call}, c.extraBraces()
}

// extraBraces skips surplus closing braces if the end of the answer or another call
// follows them.
func (c *cursor) extraBraces() error {
	s := strings.TrimLeft(c.rest(), "} \t\r\n")
	const next = "[TOOL_CALLS]"
	switch {
	case !c.final && strings.HasPrefix(next, s):
		return errMore
	case s == "" || strings.HasPrefix(s, next):
		c.i = len(c.s) - len(s)
	}
	return nil
}
