package chat

// Phi4 is the syntax
//
//	<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]<|/tool_call|>
const Phi4 ParserKind = "phi4"

func init() {
	register(Syntax{
		Kind: Phi4,
		Detect: []Sign{
			{150, []string{"<|tool_call|>"}},
			{160, []string{"<|tool|>", "<|/tool|>"}},
		},
		Marks: []mark{
			token("<|tool_call|>", jsonCalls("<|/tool_call|>", "</|tool_call|>", "<|tool_call_end|>")),
			opens("functools", jsonCalls()),
		},
		Drops: []string{"<response>", "</response>"},
		Frame: frame{open: "<|tool_call|>[", sep: ", ", close: "]<|/tool_call|>"},
		Text:  textFrame{open: "<response>", close: "</response>"},
		Call:  jsonCall("arguments"),
	})
}
