package chat

// Apertus is the syntax
//
//	<|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>
const Apertus ParserKind = "apertus"

func init() {
	register(Syntax{
		Kind:   Apertus,
		Detect: []Sign{{190, []string{"<|tools_prefix|>"}}},
		Marks:  []mark{token("<|tools_prefix|>", apertusCalls)},
		Frame:  frame{open: "<|tools_prefix|>[", sep: ", ", close: "]<|tools_suffix|>"},
		Call: func(b *grammarBuilder, rule, name string, params *Dict) (string, error) {
			return b.wrapped(rule, "{"+quote(name)+": ", "}"), nil
		},
	})
}

// apertusCalls reads a list of objects. The only key of each object is the
// function's name.
func apertusCalls(c *cursor) ([]Call, error) {
	c.space()
	if err := c.lit("["); err != nil {
		return nil, err
	}
	var out []Call
	for {
		c.space()
		n, err := c.oneOf("]", ",", `{"`)
		switch {
		case err != nil:
			return nil, err
		case n < 0:
			return nil, c.endOr(errBad)
		case n == 0:
			return out, c.close("<|tools_suffix|>")
		case n == 1:
			continue
		}
		name, err := c.until(`"`)
		if err != nil {
			return nil, err
		}
		c.space()
		if err := c.lit(":"); err != nil {
			return nil, err
		}
		c.space()
		args, err := c.arguments()
		if err != nil {
			return nil, err
		}
		if !validName(name) {
			return nil, errBad
		}
		c.space()
		if err := c.lit("}"); err != nil {
			return nil, err
		}
		out = append(out, Call{Name: name, Arguments: args})
	}
}
