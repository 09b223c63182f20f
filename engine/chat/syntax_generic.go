package chat

// Generic is the syntax
//
//	{"name": "f", "arguments": {"a": 1}}, alone or in tool_calls
const Generic ParserKind = "generic"

func init() {
	register(Syntax{
		Kind:  Generic,
		Marks: []mark{opens("<tool_call>", tagCall("</tool_call>")), opens("```json", fence)},
		Bare:  bareJSON("{["),
		Read:  readJSON,
		Frame: frame{open: `{"tool_calls": [`, sep: ", ", close: `]}`},
		Call:  jsonCall("arguments"),
	})
}
