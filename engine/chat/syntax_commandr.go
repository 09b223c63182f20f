package chat

import "slices"

// CommandR is the syntax
//
//	<|START_ACTION|>[{"tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>
const CommandR ParserKind = "command-r"

func init() {
	register(Syntax{
		Kind: CommandR,
		Detect: []Sign{
			{170, []string{"<|START_ACTION|>"}},
			{180, []string{"Action:", "tool_name"}},
		},
		Marks: []mark{token("<|START_ACTION|>", jsonCalls("<|END_ACTION|>")), opens("Action:", actionFence)},
		Drops: []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
		Frame: frame{open: "<|START_ACTION|>[\n    ", sep: ",\n    ", close: "\n]<|END_ACTION|>"},
		Text:  textFrame{open: "<|START_RESPONSE|>", close: "<|END_RESPONSE|>"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.wrapped(rule, `{"tool_call_id": "0", "tool_name": `+quote(name)+`, "parameters": `, "}"), nil
		},
	})
}

// actionFence reads Action: and a fenced JSON block. Cohere's directly-answer is
// not a call.
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
