package chat

// GigaChat3 is the syntax
//
//	function call<|role_sep|>
//	{"name": "f", "arguments": {"a": 1}}<|message_sep|>
const GigaChat3 ParserKind = "gigachat3"

// gigaChatEnd ends a message of GigaChat.
const gigaChatEnd = "<|message_sep|>"

func init() {
	register(Syntax{
		Kind:   GigaChat3,
		Detect: []Sign{{64, []string{"<|role_sep|>", "function call"}}},
		Marks:  gigaChatMarks(),
		Drops:  []string{gigaChatEnd},
		Call: func(b *grammarBuilder, rule, name string, _ *Dict) (string, error) {
			return b.wrapped(rule, "function call<|role_sep|>\n"+`{"name": `+quote(name)+`, "arguments": `, "}"), nil
		},
	})
}

// gigaChatMarks open calls in both GigaChat syntaxes.
func gigaChatMarks() []mark {
	return []mark{token("<|function_call|>", jsonCalls(gigaChatEnd)), token("function call<|role_sep|>", jsonCalls(gigaChatEnd))}
}
