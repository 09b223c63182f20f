package chat

// DSML is the syntax
//
//	<｜DSML｜tool_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="a" string="false">1…
const DSML ParserKind = "dsml"

func init() {
	register(Syntax{
		Kind:   DSML,
		Detect: []Sign{{40, []string{"｜DSML｜"}}},
		Marks: []mark{
			token("<｜DSML｜tool_calls>", invokes("｜DSML｜", "</｜DSML｜tool_calls>")),
			token("<｜DSML｜function_calls>", invokes("｜DSML｜", "</｜DSML｜function_calls>")),
		},
		Frame: frame{open: "<｜DSML｜tool_calls>\n", sep: "\n", close: "\n</｜DSML｜tool_calls>"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.tagged(rule, params, "<｜DSML｜invoke name="+quote(name)+">\n", `<｜DSML｜parameter name="%s" string="true">`, "</｜DSML｜parameter>", "\n", "</｜DSML｜invoke>")
		},
	})
}
