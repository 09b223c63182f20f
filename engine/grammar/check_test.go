package grammar

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestLooseSchemas builds schemas without the keywords that grammars cannot
// enforce. It checks which keywords are reported and compares the validation of
// documents with another implementation.
func TestLooseSchemas(t *testing.T) {
	v := newVocab(jsonTexts...)
	toks := newTokens(t, v)
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		schema, left string
		yes, no      string // documents, all of which the grammar matches
	}{
		{`{"type":"array","items":{"type":"integer","minimum":0,"maximum":3},"minItems":2,"maxItems":3,"uniqueItems":true}`, "#/uniqueItems", `[1,2]`, `[1,1]`},
		{`{"type":"array","prefixItems":[{"type":"integer"},{"type":"integer"}],"uniqueItems":true}`, "#/uniqueItems", `[1,2]`, `[7,7]`},
		{`{"type":"object","properties":{"a":{"type":"integer","not":{"const":3}}},"required":["a"]}`, "#/properties/a/not", `{"a":4}`, `{"a":3}`},
		{`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"boolean"}},"dependentRequired":{"a":["b"]}}`, "#/dependentRequired", `{"b":true}`, `{"a":true}`},
		{`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"boolean"}},"dependentSchemas":{"a":{"required":["b"]}}}`, "#/dependentSchemas", `{"a":true,"b":true}`, `{"a":true}`},
		{`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"boolean"}},"dependencies":{"a":["b"]}}`, "#/dependencies", `{}`, `{"a":true}`},
		{`{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"integer"}},"required":["a","b"],"if":{"properties":{"a":{"const":true}}},"then":{"properties":{"b":{"minimum":5}}},"else":{"properties":{"b":{"maximum":4}}}}`, "#/if", `{"a":true,"b":5}`, `{"a":false,"b":5}`},
		{`{"type":"array","items":{"enum":[1,2,3]},"contains":{"const":2},"maxContains":1}`, "#/contains", `[1,2]`, `[2,2]`},
		{`{"type":"string","pattern":"^[a-z]{3}(?=x)[a-z]$"}`, "#/pattern", `"abcx"`, `"abcd"`},
		{`{"type":"string","pattern":"\\bcat\\b","maxLength":12}`, "#/pattern", `"a cat"`, `"cats"`},
		{`{"type":"string","pattern":"^(a|b)\\1$"}`, "#/pattern", `"aa"`, `"ab"`},
		{`{"oneOf":[{"type":"integer"},{"type":"number","minimum":2}]}`, "#/oneOf", `1`, `3`},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"patternProperties":{"^x(?!y)(?=z)":{"type":"integer"}},"additionalProperties":{"type":"string"}}`, "#/patternProperties", `{"xz":1}`, `{"xz":"1"}`},
		{`{"allOf":[{"properties":{"a":true}},{"properties":{"b":true},"unevaluatedProperties":false}],"type":"object"}`, "#/allOf/1/unevaluatedProperties", `{"b":1}`, `{"a":1}`},
		{`{"type":"object","properties":{"a":true},"additionalProperties":{"type":"integer"},"propertyNames":{"anyOf":[{"maxLength":2},{"pattern":"^x"}]}}`, "#/propertyNames", `{"xyz":1}`, `{"abc":1}`},
		{`{"type":"object","additionalProperties":{"type":"integer"},"minProperties":1000000}`, "#/minProperties", ``, `{"abc":1}`},
		{`{"type":"number","multipleOf":1e-30}`, "#/multipleOf", `1`, ``},
	} {
		if _, err := FromSchema([]byte(c.schema)); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: strict: %v", c.schema, err)
		}
		g, err := FromLooseSchema([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		if !slices.Contains(g.Left(), c.left) || g.Check() == nil {
			t.Errorf("%s: left out %q, want %q", c.schema, g.Left(), c.left)
			continue
		}
		compiled := compile(t, g, toks)
		if c.yes != "" && !strings.Contains(c.left, "patternProperties") && !accepts(t, compiled, c.yes) {
			t.Errorf("%s: %s is refused", c.schema, c.yes)
		}
		if c.no != "" && !accepts(t, compiled, c.no) {
			t.Errorf("%s: %s is refused", c.schema, c.no)
		}
		if c.yes != "" {
			if err := g.Check().Validate([]byte(c.yes)); err != nil {
				t.Errorf("%s: %s: %v", c.schema, c.yes, err)
			}
		}
		if c.no != "" {
			if err := g.Check().Validate([]byte(c.no)); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: %s: %v", c.schema, c.no, err)
			}
		}
		if c.left == "#/pattern" || c.left == "#/patternProperties" {
			continue // the other implementation supports only regular patterns
		}
		other := validator(t, []byte(c.schema))
		for i := range 60 {
			if doc, ok := generate(t, compiled, v, rng, i%20, 300); ok {
				agree(t, c.schema, doc, g.Check(), other)
			}
		}
	}
}

// agree compares the verdicts of two implementations about a document.
func agree(t *testing.T, schema, doc string, c *Check, other *jsonschema.Schema) {
	t.Helper()
	inst, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := c.Validate([]byte(doc)), other.Validate(inst)
	if (ours == nil) != (theirs == nil) {
		t.Errorf("%s: %s: we say %v, others %v", schema, doc, ours, theirs)
	}
}

// TestCheck compares validation results with those of another implementation.
func TestCheck(t *testing.T) {
	v := newVocab(jsonTexts...)
	toks := newTokens(t, v)
	rng := rand.New(rand.NewPCG(5, 6))
	cases := schemaCases(t)
	var docs []string
	for _, c := range cases {
		g, err := FromSchema(c.Schema)
		if err != nil {
			t.Fatal(err)
		}
		compiled := compile(t, g, toks)
		docs = append(append(docs, c.Yes...), c.No...)
		for i := range 2 {
			if doc, ok := generate(t, compiled, v, rng, i*10, 300); ok {
				docs = append(docs, doc)
			}
		}
	}
	docs = slices.DeleteFunc(docs, func(doc string) bool {
		_, err := readValue([]byte(doc))
		return err != nil
	})
	verdicts := 0
	for _, c := range cases {
		if strings.Contains(string(c.Schema), `"format"`) || strings.Contains(string(c.Schema), `"nullable"`) {
			continue // the two implementations differ in whether they check format
		}
		ours, err := NewCheck(c.Schema)
		if err != nil {
			t.Fatal(err)
		}
		other := validator(t, c.Schema)
		for _, doc := range docs {
			agree(t, string(c.Schema), doc, ours, other)
			verdicts++
		}
	}
	if verdicts < 10_000 {
		t.Errorf("only %d verdicts", verdicts)
	}
}

// TestLookAhead checks that the grammar follows look-ahead at the start of a
// pattern.
func TestLookAhead(t *testing.T) {
	toks := newTokens(t, newVocab(jsonTexts...))
	for _, c := range []struct{ pattern, yes, no string }{
		{`^(?=.*[A-Z])(?=.*\\d).{4,8}$`, `aB3x`, `ab3x`},
		{`^(?!admin$)[a-z]+$`, `admins`, `admin`},
		{`^(?!.*(foo|bar)).*$`, `fob`, `a foo`},
		{`^(?=a|b)[a-d]{2}$`, `bd`, `cd`},
		{`^(?=[^)]*\\))x`, `x)`, `xy`},
	} {
		schema := []byte(`{"type": "string", "pattern": "` + c.pattern + `"}`)
		if _, err := FromSchema(schema); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: strict: %v", c.pattern, err)
		}
		g, err := FromLooseSchema(schema)
		if err != nil || len(g.Left()) != 1 {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		compiled := compile(t, g, toks)
		if !accepts(t, compiled, `"`+c.yes+`"`) || accepts(t, compiled, `"`+c.no+`"`) {
			t.Errorf("%s: %q and %q are not told apart", c.pattern, c.yes, c.no)
		}
	}
	for _, pattern := range []string{`^(?=a)b|c`, `(?=a)b`, `^a(?=b)`} { // generated without the look-ahead
		g, err := FromLooseSchema([]byte(`{"type": "string", "pattern": "` + pattern + `"}`))
		if err != nil || len(g.Left()) != 1 || !accepts(t, compile(t, g, toks), `"xyz"`) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for _, pattern := range []string{`^(?=a`, `^(?=a)+b`} { // invalid patterns
		if _, err := FromLooseSchema([]byte(`{"type": "string", "pattern": "` + pattern + `"}`)); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// TestCheckLimits checks that validation ends for hostile schemas and documents.
func TestCheckLimits(t *testing.T) {
	deep := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	for _, c := range []struct{ schema, doc, want string }{
		{`{"$ref":"#"}`, `1`, "deep"},
		{`{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`, `1`, "deep"},
		{`{"$defs":{"a":{"allOf":[{"items":{"$ref":"#/$defs/a"}},{"items":{"$ref":"#/$defs/a"}}]}},"$ref":"#/$defs/a"}`, deep, "steps"},
		{`{"pattern":"^(a+)+\\b(?=x)$"}`, `"` + strings.Repeat("a", 5000) + `"`, "timeout"},
		{`{"properties":{"a":3}}`, `{"a":1}`, "want a schema"},
		{`{"$ref":"x"}`, `1`, "outside"},
		{`true`, `{"a":1,"a":2}`, "duplicate member"},
	} {
		check, err := NewCheck([]byte(c.schema))
		if err != nil {
			t.Fatal(err)
		}
		if err := check.Validate([]byte(c.doc)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.schema, err, c.want)
		}
	}
}
