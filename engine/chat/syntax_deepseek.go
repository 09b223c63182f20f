package chat

import "strings"

// DeepSeek is the syntax
//
//	<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
const DeepSeek ParserKind = "deepseek"

func init() {
	register(Syntax{
		Kind: DeepSeek,
		Detect: []Sign{
			{50, []string{"<｜tool▁calls▁begin｜>"}},
			{60, []string{"<｜tool▁call▁begin｜>"}},
		},
		Marks: []mark{token("<｜tool▁calls▁begin｜>", deepSeekCalls), token("<｜tool▁call▁begin｜>", deepSeekCall)},
		Frame: frame{open: "<｜tool▁calls▁begin｜>", close: "<｜tool▁calls▁end｜>"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.wrapped(rule, "<｜tool▁call▁begin｜>"+name+"<｜tool▁sep｜>", "<｜tool▁call▁end｜>"), nil
		},
	})
}

// deepSeekCalls reads calls up to the end of their section.
func deepSeekCalls(c *cursor) ([]Call, error) {
	return section(c, "<｜tool▁call▁begin｜>", "<｜tool▁calls▁end｜>", deepSeekCall)
}

// deepSeekCall reads function<sep>NAME followed by fenced JSON, or NAME<sep>JSON.
func deepSeekCall(c *cursor) ([]Call, error) {
	name, err := c.until("<｜tool▁sep｜>")
	if err != nil {
		return nil, err
	}
	name = strings.TrimSpace(name)
	if name == "function" {
		if name, err = c.until("\n"); err != nil {
			return nil, err
		}
		name = strings.TrimSpace(name)
	}
	if !validName(name) {
		return nil, errBad
	}
	c.space()
	fenced, err := c.oneOf("```json", "```")
	if err != nil {
		return nil, err
	}
	c.space()
	args, err := c.arguments()
	if err != nil {
		return nil, err
	}
	if fenced >= 0 {
		c.space()
		if err := c.lit("```"); err != nil {
			return nil, err
		}
	}
	return []Call{{Name: name, Arguments: args}}, c.close("<｜tool▁call▁end｜>")
}
