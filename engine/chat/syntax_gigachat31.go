package chat

// GigaChat31 is the syntax
//
//	<|function_call|>{"name": "f", "arguments": {"a": 1}}<|message_sep|>
const GigaChat31 ParserKind = "gigachat3.1"

func init() {
	register(Syntax{
		Kind:   GigaChat31,
		Detect: []Sign{{62, []string{"<|role_sep|>", "<|function_call|>"}}},
		Marks:  gigaChatMarks(),
		Drops:  []string{gigaChatEnd},
		Call: func(b *grammarBuilder, rule, name string, _ *Dict) (string, error) {
			return b.wrapped(rule, "<|function_call|>"+`{"name": `+quote(name)+`, "arguments": `, "}"), nil
		},
	})
}
