package chat

// Hermes is the syntax
//
//	<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>
const Hermes ParserKind = "hermes"

func init() {
	register(Syntax{
		Kind:   Hermes,
		Detect: []Sign{{120, []string{"<tool_call>"}}},
		Marks:  []mark{opens("<tool_call>", tagCall("</tool_call>"))},
		Frame:  frame{sep: "\n"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.wrapped(rule, "<tool_call>\n"+`{"name": `+quote(name)+`, "arguments": `, "}\n</tool_call>"), nil
		},
	})
}

// tagCall reads the content of <tool_call>: JSON, Qwen's XML, or GLM's pairs of
// keys and values.
func tagCall(tag string) reader {
	return func(c *cursor) ([]Call, error) {
		c.space()
		first, err := c.peek()
		if err != nil {
			return nil, err
		}
		switch first {
		case '{', '[', '`':
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
