package chat

import "strings"

// MiniCPM5 is the syntax
//
//	<function name="f"><param name="a">1</param></function>
const MiniCPM5 ParserKind = "minicpm5"

func init() {
	register(Syntax{
		Kind:   MiniCPM5,
		Detect: []Sign{{85, []string{`<function name="`, `<param name="`}}},
		Marks:  []mark{opens(`<function name="`, miniCPM5Call)},
		Frame:  frame{sep: "\n"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.tagged(rule, params, "<function name="+quote(name)+">", `<param name="%s">`, "</param>", "", "</function>")
		},
	})
}

// miniCPM5Call reads NAME"> <param name="KEY">VALUE</param>… </function>. A
// value may be enclosed in <![CDATA[…]]>.
func miniCPM5Call(c *cursor) ([]Call, error) {
	name, err := c.until(`">`)
	if err != nil {
		return nil, err
	}
	if !validName(name) {
		return nil, errBad
	}
	var args argList
	for {
		c.space()
		n, err := c.oneOf(`<param name="`, "</function>")
		switch {
		case err != nil:
			return nil, err
		case n < 0:
			return nil, c.endOr(errBad)
		case n == 1:
			return []Call{{Name: name, Arguments: args.String()}}, nil
		}
		key, err := c.until(`">`)
		if err != nil {
			return nil, err
		}
		value, err := c.cdata()
		if err != nil {
			return nil, err
		}
		args.add(key, c.p.typed(name, key, value))
	}
}

// cdata reads a value and its closing tag.
func (c *cursor) cdata() (string, error) {
	at := c.i
	c.space()
	raw, err := c.maybe("<![CDATA[")
	if err != nil {
		return "", err
	}
	if !raw {
		c.i = at
		return c.until("</param>")
	}
	value, err := c.until("]]>")
	if err != nil {
		return "", err
	}
	rest, err := c.until("</param>")
	if err == nil && strings.TrimSpace(rest) != "" {
		return "", errBad
	}
	return value, err
}
