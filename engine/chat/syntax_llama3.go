package chat

import (
	"slices"
	"strings"
)

// Llama3 is the syntax
//
//	{"name": "f", "parameters": {"a": 1}}, or <|python_tag|>f.call(a=1)
const Llama3 ParserKind = "llama3"

func init() {
	register(Syntax{
		Kind: Llama3,
		Detect: []Sign{
			{240, []string{"<|python_tag|>"}},
			{250, []string{"<|start_header_id|>", `"parameters"`}},
		},
		Marks: []mark{
			token("<|python_tag|>", pythonTag), opens("<function=", functionJSON),
			last("```json", ""), last("```\n{", "{"), last(`{"name"`, `{"name"`), last(`{"type"`, `{"type"`), last(`{"function"`, `{"function"`),
		},
		Bare:  bareJSON("{["),
		Read:  readJSON,
		Frame: frame{sep: "; "},
		Call:  jsonCall("parameters"),
	})
}

// pythonTag reads what follows <|python_tag|>: JSON, NAME.call(k=v), or code
// for a tool that runs Python.
func pythonTag(c *cursor) ([]Call, error) {
	c.space()
	first, err := c.peek()
	if err != nil {
		return nil, err
	}
	if first == '{' || first == '[' {
		return readJSON(c)
	}
	if !c.final {
		return nil, errMore // the end of the code is the end of the answer
	}
	whole := c.rest()
	inner := &cursor{s: whole, final: true, p: c.p}
	if calls, err := pythonCalls()(inner); err == nil && len(calls) > 0 && strings.TrimSpace(inner.rest()) == "" &&
		!slices.ContainsFunc(calls, func(call Call) bool { return !c.known(call.Name) }) {
		c.i = len(c.s)
		return calls, nil
	}
	for _, name := range []string{"python", "code_interpreter", "ipython"} {
		if c.known(name) {
			c.i = len(c.s)
			var args argList
			args.add(codeParameter(c.p.schemas[name]), quote(strings.TrimSpace(whole)))
			return []Call{{Name: name, Arguments: args.String()}}, nil
		}
	}
	return nil, errBad
}

// codeParameter returns the name of the only parameter of a Python tool.
func codeParameter(params *Dict) string {
	if props, ok := lookup(params, "properties").(*Dict); ok {
		for name := range props.All() {
			return name
		}
	}
	return "code"
}
