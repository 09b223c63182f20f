package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"godwit/engine/chat/jinja"
)

// Gemma4 is the syntax
//
//	<|tool_call>call:f{a:1}<tool_call|>
const Gemma4 ParserKind = "gemma4"

func init() {
	register(Syntax{
		Kind:   Gemma4,
		Detect: []Sign{{20, []string{"<|tool_call>"}}},
		Marks:  []mark{token("<|tool_call>", gemma4Call)},
		Drops:  []string{"<|tool_response>", "<turn|>"},
		Call:   (*grammarBuilder).gemma4,
	})
}

// gemmaQuote encloses strings in Gemma 4's notation.
const gemmaQuote = `<|"|>`

// gemma4Call reads call:NAME{KEY:VALUE,…}<tool_call|>. It tolerates a second brace
// around the arguments and a missing last brace.
func gemma4Call(c *cursor) ([]Call, error) {
	c.space()
	if err := c.lit("call:"); err != nil {
		return nil, err
	}
	n := strings.IndexByte(c.rest(), '{')
	if n < 0 {
		return nil, c.end()
	}
	call := Call{Name: strings.TrimSpace(c.rest()[:n])}
	if !validName(call.Name) {
		return nil, errBad
	}
	c.i += n
	if len(c.rest()) < 2 && !c.final {
		return nil, errMore
	}
	if strings.HasPrefix(c.rest(), "{{") {
		c.i++
		c.slip = true
	}
	c.gemma = call.Name
	var err error
	if call.Arguments, err = c.gemmaValue(0); err != nil {
		return nil, err
	}
	if !json.Valid([]byte(call.Arguments)) || c.slip && !c.known(call.Name) {
		return nil, errBad
	}
	if err := c.jsonEnd([]string{"<tool_call|>"}); err != nil {
		return nil, err
	}
	return []Call{call}, c.close("<tool_call|>")
}

// gemmaText reads a string with wrong quotes: single quotes, or none if the schema
// says that the parameter is text.
func (c *cursor) gemmaText(text bool) (string, error) {
	if rest, ok := strings.CutPrefix(c.rest(), "'"); ok {
		n, m := strings.Index(rest, "'"), strings.Index(rest, gemmaQuote)
		switch {
		case n < 0 && m < 0:
			return "", c.end()
		case m >= 0 && (n < 0 || m < n):
			c.i += 1 + m + len(gemmaQuote)
			return quote(rest[:m]), nil
		case !c.final && len(rest) <= n+1:
			return "", errMore
		}
		c.i += n + 2
		return quote(rest[:n]), nil
	}
	s := c.rest()
	n := strings.IndexAny(s, ",}]<")
	if n < 0 {
		return "", c.end()
	}
	word := strings.TrimSpace(s[:n])
	closed := strings.HasPrefix(s[n:], gemmaQuote)
	if !closed && !c.final && strings.HasPrefix(gemmaQuote, s[n:]) {
		return "", errMore
	}
	if !text && !closed || word == "" || strings.ContainsAny(word, `{["'`) || s[n] == '<' && !closed {
		return "", errBad
	}
	c.i += n
	if closed {
		c.i += len(gemmaQuote)
	}
	return quote(word), nil
}

// gemmaType reports whether a parameter of the call is text.
func (c *cursor) gemmaType(key string) bool {
	params := c.p.schemas[c.gemma]
	return schemaTypes(params, field(lookup(params, "properties"), key), 0)["string"]
}

// gemmaValue reads a value in Gemma 4's notation and returns it as JSON.
func (c *cursor) gemmaValue(depth int) (string, error) {
	if depth > maxArgDepth {
		return "", errBad
	}
	c.space()
	n, err := c.oneOf(gemmaQuote, "{", "[", `"`)
	if err != nil {
		return "", err
	}
	switch n {
	case 0:
		s, err := c.until(gemmaQuote)
		return quote(s), err
	case 1:
		return c.items("{", "}", func() (string, error) {
			if depth == 0 && strings.HasPrefix(c.rest(), "<tool_call|>") {
				c.slip = true
				return "", errClosed
			}
			quoted, err := c.maybe(gemmaQuote)
			if err != nil {
				return "", err
			}
			end := ":"
			if quoted {
				end = gemmaQuote
			}
			key, err := c.until(end)
			if err != nil {
				return "", err
			}
			if quoted {
				if err := c.lit(":"); err != nil {
					return "", err
				}
			}
			key = strings.Trim(strings.TrimSpace(key), `"'`)
			if strings.ContainsAny(key, "{\"\n,") {
				return "", errBad
			}
			at := c.i
			value, err := c.gemmaValue(depth + 1)
			if errors.Is(err, errBad) {
				c.i = at
				c.space()
				c.slip = true
				value, err = c.gemmaText(depth == 0 && c.gemmaType(key))
			}
			return quote(key) + ": " + value, err
		})
	case 2:
		return c.items("[", "]", func() (string, error) { return c.gemmaValue(depth + 1) })
	case 3:
		end := stringEnd(c.s[c.i-1:])
		if end < 0 {
			return "", c.end()
		}
		s := c.s[c.i-1 : c.i-1+end]
		if !json.Valid([]byte(s)) {
			return "", errBad
		}
		c.i += end - 1
		return s, nil
	}
	return c.word(",]}< \t\r\n")
}

// gemmaLeft lists the keywords that the rules for Gemma 4's values ignore.
var gemmaLeft = append([]string{
	"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "prefixItems",
	"allOf", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
}, textKeywords...)

// maxGemmaRules limits the number of rules in a grammar, because schemas may refer
// to themselves.
const maxGemmaRules = 10_000

// gemmaNumber is an integer in Gemma 4's notation.
const gemmaNumber = `"-"? ("0" | [1-9] [0-9]{0,15})`

// gemma4 returns the rule body for a call in Gemma 4's notation.
func (b *grammarBuilder) gemma4(rule, name string, params *Dict) (string, error) {
	if !b.gemma {
		b.gemma = true
		b.rule("gemma-string", b.literal(gemmaQuote)+" "+b.upTo(gemmaQuote))
		b.rule("gemma-number", gemmaNumber+` ("." [0-9]{1,16})?`)
		b.rule("gemma-list", `"[" (gemma-value ("," gemma-value)*)? "]"`)
		b.rule("gemma-object", `"{" (gemma-key ":" gemma-value ("," gemma-key ":" gemma-value)*)? "}"`)
		b.rule("gemma-key", `[a-zA-Z0-9_\x2d]+`)
		b.rule("gemma-value", `gemma-string | gemma-number | "true" | "false" | "null" | gemma-list | gemma-object`)
	}
	b.gemmaRoot = params
	for _, p := range paramsOf(params) {
		b.leave(p, gemmaLeft)
	}
	args, err := b.gemmaObject(rule, params, 0)
	return b.literal("<|tool_call>call:"+name) + " " + args + " " + b.literal("<tool_call|>"), err
}

// gemmaObject returns the rule body for an object with the properties of a schema.
func (b *grammarBuilder) gemmaObject(rule string, schema *Dict, depth int) (string, error) {
	args, err := b.listed(rule, paramsOf(schema), ",", func(i int, p param) (string, error) {
		v, err := b.gemmaValue(fmt.Sprintf("%s-%d", rule, i), p.schema, depth+1)
		return b.literal(p.name+":") + " " + v, err
	})
	return strings.TrimSpace(`"{" ` + args + ` "}"`), err
}

// gemmaValue returns the rule for values of a schema in Gemma 4's notation. Below
// six levels, any value is allowed.
func (b *grammarBuilder) gemmaValue(rule string, schema Value, depth int) (string, error) {
	schema = deref(b.gemmaRoot, schema)
	if l, ok := field(schema, "enum").(*List); ok {
		var out []string
		for i := range l.Len() {
			if s, ok := text(l.At(i)); ok {
				out = append(out, b.literal(gemmaQuote+s+gemmaQuote))
			} else if raw, err := jinja.EncodeJSON(l.At(i)); err == nil {
				out = append(out, b.literal(string(raw)))
			}
		}
		return "(" + strings.Join(out, " | ") + ")", nil
	}
	types := schemaTypes(b.gemmaRoot, schema, 0)
	array, object := "gemma-list", "gemma-object"
	d, _ := schema.(*Dict)
	if len(b.rules) > maxGemmaRules {
		depth = 6
	}
	if items := lookup(d, "items"); items != nil && types["array"] && depth < 6 {
		item, err := b.gemmaValue(rule+"-item", items, depth+1)
		if err != nil {
			return "", err
		}
		array = fmt.Sprintf(`"[" (%s ("," %s)*)? "]"`, item, item)
	}
	if props, ok := lookup(d, "properties").(*Dict); ok && props.Len() > 0 && types["object"] && depth < 6 {
		var err error
		if object, err = b.gemmaObject(rule, d, depth); err != nil {
			return "", err
		}
	}
	var out []string
	for _, t := range []struct{ name, rule string }{
		{"string", "gemma-string"},
		{"number", "gemma-number"},
		{"boolean", `"true" | "false"`},
		{"null", `"null"`},
		{"array", array},
		{"object", object},
	} {
		if types[t.name] {
			out = append(out, t.rule)
		}
	}
	if types["integer"] && !types["number"] {
		out = append(out, gemmaNumber)
	}
	if len(out) == 0 {
		return "gemma-value", nil
	}
	return "(" + strings.Join(out, " | ") + ")", nil
}
