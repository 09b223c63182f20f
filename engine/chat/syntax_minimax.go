package chat

// MiniMax is the syntax
//
//	<minimax:tool_call><invoke name="f"><parameter name="a">1</parameter></invoke></minimax:tool_call>
const MiniMax ParserKind = "minimax"

func init() {
	register(Syntax{
		Kind:   MiniMax,
		Detect: []Sign{{110, []string{"<minimax:tool_call>"}}},
		Marks:  []mark{opens("<minimax:tool_call>", invokes("", "</minimax:tool_call>"))},
		Frame:  frame{open: "<minimax:tool_call>\n", sep: "\n", close: "\n</minimax:tool_call>"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.tagged(rule, params, "<invoke name="+quote(name)+">\n", `<parameter name="%s">`, "</parameter>", "\n", "</invoke>")
		},
	})
}
