package chat

// Functools is the syntax
//
//	functools[{"name": "f", "arguments": {"a": 1}}]
const Functools ParserKind = "functools"

func init() {
	register(Syntax{
		Kind:   Functools,
		Detect: []Sign{{220, []string{"functools["}}},
		Marks:  []mark{opens("functools", jsonCalls())},
		Frame:  frame{open: "functools[", sep: ", ", close: "]"},
		Call:   jsonCall("arguments"),
	})
}
