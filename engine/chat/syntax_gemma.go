package chat

import (
	"strings"
	"unicode"
)

// Gemma is the syntax
//
//	```tool_code f(a=1)```, [f(a=1)], or {"name": "f", "parameters": {"a": 1}}
const Gemma ParserKind = "gemma"

func init() {
	register(Syntax{
		Kind:   Gemma,
		Detect: []Sign{{260, []string{"<start_of_turn>"}}},
		Marks:  []mark{opens("```tool_code", fence), opens("```json", fence)},
		Bare:   gemmaBare,
		Read:   readGemma,
		Frame:  frame{open: "[", sep: ", ", close: "]"},
		Call:   (*grammarBuilder).python,
	})
}

// gemmaBare decides whether an answer begins with a call in JSON, or with a
// bracketed call in Python's notation.
func gemmaBare(s string, final bool) verdict {
	if v := bareJSON("{[")(s, final); v != no {
		return v
	}
	if !strings.HasPrefix(s, "[") {
		return no
	}
	in := strings.TrimLeft(s[1:], " \t\r\n")
	n := strings.IndexFunc(in, func(r rune) bool { return r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	switch {
	case n < 0 && !final && (in == "" || startsName(in)):
		return maybe
	case n > 0 && in[n] == '(' && startsName(in):
		return yes
	}
	return no
}

func readGemma(c *cursor) ([]Call, error) {
	if strings.HasPrefix(c.rest(), "[") && startsName(c.rest()[1:]) {
		calls, err := pythonCalls()(c)
		if err != nil {
			return nil, err
		}
		for _, call := range calls {
			if !c.known(call.Name) {
				return nil, errBad
			}
		}
		return calls, nil
	}
	return readJSON(c)
}
