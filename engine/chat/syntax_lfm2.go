package chat

// LFM2 is the syntax
//
//	<|tool_call_start|>[f(a=1)]<|tool_call_end|>
const LFM2 ParserKind = "lfm2"

func init() {
	register(Syntax{
		Kind: LFM2,
		Detect: []Sign{
			{130, []string{"<|tool_call_start|>"}},
			{140, []string{"<|tool_list_start|>"}},
		},
		Marks: []mark{token("<|tool_call_start|>", pythonCalls("<|tool_call_end|>"))},
		Frame: frame{open: "<|tool_call_start|>[", sep: ", ", close: "]<|tool_call_end|>"},
		Call:  (*grammarBuilder).python,
	})
}
