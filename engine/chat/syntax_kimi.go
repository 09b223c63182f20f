package chat

import "strings"

// Kimi is the syntax
//
//	<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>
const Kimi ParserKind = "kimi"

func init() {
	register(Syntax{
		Kind:   Kimi,
		Detect: []Sign{{70, []string{"<|tool_call_begin|>", "<|tool_call_argument_begin|>"}}},
		Marks:  []mark{token("<|tool_calls_section_begin|>", kimiCalls), token("<|tool_call_begin|>", kimiCall)},
		Frame:  frame{open: "<|tool_calls_section_begin|>", close: "<|tool_calls_section_end|>"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.wrapped(rule, "<|tool_call_begin|>functions."+name+":0<|tool_call_argument_begin|>", "<|tool_call_end|>"), nil
		},
	})
}

func kimiCalls(c *cursor) ([]Call, error) {
	return section(c, "<|tool_call_begin|>", "<|tool_calls_section_end|>", kimiCall)
}

// kimiCall reads functions.NAME:NUMBER and the arguments. The text
// functions.NAME:NUMBER is the call's id.
func kimiCall(c *cursor) ([]Call, error) {
	id, err := c.until("<|tool_call_argument_begin|>")
	if err != nil {
		return nil, err
	}
	id = strings.TrimSpace(id)
	name := strings.TrimPrefix(id, "functions.")
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		name = name[:i]
	}
	if !validName(name) {
		return nil, errBad
	}
	c.space()
	args, err := c.arguments()
	if err != nil {
		return nil, err
	}
	return []Call{{ID: id, Name: name, Arguments: args}}, c.close("<|tool_call_end|>")
}
