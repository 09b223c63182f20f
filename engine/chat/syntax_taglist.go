package chat

// TagList is the syntax
//
//	<TOOLCALL>[{"name": "f", "arguments": {"a": 1}}]</TOOLCALL>
const TagList ParserKind = "tag-list"

func init() {
	register(Syntax{
		Kind: TagList,
		Detect: []Sign{
			{100, []string{"<tool_calls>["}},
			{200, []string{"<TOOLCALL>"}},
			{210, []string{"<tool_calls>"}},
		},
		Marks: []mark{opens("<TOOLCALL>", jsonCalls("</TOOLCALL>")), opens("<tool_calls>", jsonCalls("</tool_calls>"))},
		Frame: frame{open: "<TOOLCALL>[", sep: ", ", close: "]</TOOLCALL>"},
		Call:  jsonCall("arguments"),
	})
}
