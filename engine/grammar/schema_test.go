package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// validator compiles a schema with an independent implementation.
func validator(t testing.TB, schema []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("mem:schema", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return s
}

var (
	texts     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	longWhole = regexp.MustCompile(`(^|[^0-9.])[0-9]{17}`)
)

// checkDocument checks the properties that every generated document must have.
func checkDocument(t testing.TB, doc string, v *jsonschema.Schema) {
	t.Helper()
	inst, err := jsonschema.UnmarshalJSON(strings.NewReader(doc))
	if err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	if v != nil {
		if err := v.Validate(inst); err != nil {
			t.Fatalf("%q: %v", doc, err)
		}
	}
	if err := noRepeats(json.NewDecoder(strings.NewReader(doc))); err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	bare := texts.ReplaceAllString(doc, `""`)
	if strings.ContainsAny(bare, "\n\r\t") || strings.Contains(bare, "  ") {
		t.Fatalf("%q: blanks", doc)
	}
	for i, c := range bare {
		if c == ' ' && (i == 0 || bare[i-1] != ':' && bare[i-1] != ',') {
			t.Fatalf("%q: a blank after something else than : and ,", doc)
		}
	}
	if longWhole.MatchString(bare) {
		t.Fatalf("%q: a whole number of more than 16 digits", doc)
	}
}

// noRepeats reads one value and fails if a member occurs twice.
func noRepeats(dec *json.Decoder) error {
	tok, err := dec.Token()
	if err != nil {
		return err
	}
	open, ok := tok.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			key, err := dec.Token()
			if err != nil {
				return err
			}
			if seen[key.(string)] {
				return fmt.Errorf("duplicate member %q", key)
			}
			seen[key.(string)] = true
		}
		if err := noRepeats(dec); err != nil {
			return err
		}
	}
	_, err = dec.Token()
	return err
}

type schemaCase struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Yes    []string        `json:"yes"` // documents that the grammar matches
	No     []string        `json:"no"`  // documents that the grammar does not match
}

func schemaCases(t testing.TB) []schemaCase {
	t.Helper()
	data, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []schemaCase
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// check draws documents from a schema's grammar and validates them.
func check(t testing.TB, schema []byte, v *testVocab, toks *Tokens, rng *rand.Rand, rounds int) (c *Compiled, ended int) {
	t.Helper()
	g, err := FromSchema(schema)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	c = compile(t, g, toks)
	valid := validator(t, schema)
	for i := range rounds {
		if doc, ok := generate(t, c, v, rng, i%40, 900); ok {
			ended++
			checkDocument(t, doc, valid)
		}
	}
	return c, ended
}

func TestSchemas(t *testing.T) {
	v := newVocab(jsonTexts...)
	toks := newTokens(t, v)
	for _, c := range schemaCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			g, ended := check(t, c.Schema, v, toks, rng, 25)
			if ended == 0 {
				t.Error("no document ended")
			}
			for _, doc := range c.Yes {
				if !accepts(t, g, doc) {
					t.Errorf("%s is refused", doc)
				}
			}
			for _, doc := range c.No {
				if accepts(t, g, doc) {
					t.Errorf("%s is accepted", doc)
				}
			}
		})
	}
}

func TestSchemaErrors(t *testing.T) {
	data, err := os.ReadFile("testdata/errors.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Schema json.RawMessage `json:"schema"`
		Error  string          `json:"error"`
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		_, err := FromSchema(c.Schema)
		if !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), c.Error) {
			t.Errorf("%s: got %v, want %q", c.Schema, err, c.Error)
		}
	}
	for text, want := range map[string]string{
		``:                         "not JSON",
		`{`:                        "not JSON",
		`{} {}`:                    "not JSON",
		`{"type": "a", "type": 1}`: `duplicate member "type"`,
		`{"minimum": 1e999999999}`: "too many digits",
		strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200): "nested deeper",
		`{"const": "` + strings.Repeat("a", 1<<20) + `"}`:                  "bytes, at most",
	} {
		if _, err := FromSchema([]byte(text)); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", text, err, want)
		}
	}
}

func TestJSONObject(t *testing.T) {
	v := newVocab(append(jsonTexts, `""`, `"":`, `{"":`, `,"":`, `","":`, `a":`, `"a`)...)
	toks := newTokens(t, v)
	c := compile(t, JSON(), toks)
	rng := rand.New(rand.NewPCG(5, 6))
	object := validator(t, []byte(`{"type": "object"}`))
	ended := 0
	for i := range 400 {
		if doc, ok := generate(t, c, v, rng, i%60, 4000); ok {
			ended++
			checkDocument(t, doc, object)
		}
	}
	if ended < 300 {
		t.Errorf("%d of 400 documents ended", ended)
	}
	for _, doc := range []string{`{}`, `{"a": [1, -2.5e+10, "x\u00e9\n", null, true], "b":{"a":1}}`, `{"":0,"\"":1,"a":2}`} {
		if !accepts(t, c, doc) {
			t.Errorf("%s is refused", doc)
		}
	}
	for _, doc := range []string{
		``, `[]`, `{"a":1,"a":2}`, `{"a":1,"b":{"c":1,"d":0,"c":1}}`, `{"a": 1 }`, "{\n}", `{"a":01}`, `{"a":"\ud800"}`, `{"a":12345678901234567}`, `{"a":  1}`, `{"":1,"":1}`,
		`{"\u0061":1}`,
	} {
		if accepts(t, c, doc) {
			t.Errorf("%s is accepted", doc)
		}
	}
}

// Freely drawn members never repeat, even if the vocabulary has few texts for
// names.
func TestKeysDoNotRepeat(t *testing.T) {
	v := newVocab(`"a"`, `a"`, `"a":`, `","`, `,"a`, `{"a`, `"`, `":`, `":1`, `":1,"`, `":{"`, `aa`)
	v.text = append(v.text[:0:0], v.text...)
	for b := range 256 { // a and b are the only letters
		if b >= 'c' && b <= 'z' && !strings.ContainsRune("truefalsn", rune(b)) || b > 0x7e || b < 0x20 || b >= 'A' && b <= 'Z' {
			v.text[b] = nil
		}
	}
	toks := newTokens(t, v)
	rng := rand.New(rand.NewPCG(7, 7))
	for _, schema := range []string{
		`{"type":"object","minProperties":6}`,
		`{"type":"object","minProperties":4,"maxProperties":5,"additionalProperties":{"type":"object","minProperties":2,"additionalProperties":{"type":"boolean"}}}`,
		`{"type":"object","properties":{"a":{"const":1},"aa":{"const":2},"b":{"const":3}},"required":["b"],"additionalProperties":{"enum":[4]},"minProperties":5}`,
		`{"type":"object","patternProperties":{"^a":{"const":1},"^b":{"const":2}},"minProperties":6}`,
		`{"type":"object","propertyNames":{"pattern":"^[ab]+$"},"minProperties":8}`,
		`{"type":"object","patternProperties":{"^[ab]$":{"const":1},"^a.":{"const":2}},"additionalProperties":{"const":3},"minProperties":5}`,
	} {
		if _, ended := check(t, []byte(schema), v, toks, rng, 40); ended == 0 {
			t.Errorf("%s: no document ended", schema)
		}
	}
}

func FuzzSchema(f *testing.F) {
	data, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []schemaCase
	if err := json.Unmarshal(data, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add([]byte(c.Schema))
	}
	v := newVocab(jsonTexts...)
	toks, err := NewTokens(v)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, schema []byte) {
		_, err := FromSchema(schema)
		loose, looseErr := FromLooseSchema(schema)
		for _, each := range []error{err, looseErr} {
			if each != nil && !errors.Is(each, ErrSchema) {
				t.Fatalf("error of another class: %v", each)
			}
		}
		if err == nil && (looseErr != nil || len(loose.Left()) > 0) {
			t.Fatalf("a schema that is built strictly leaves out %q, %v", loose.Left(), looseErr)
		}
		if looseErr != nil {
			return
		}
		if c := loose.Check(); c != nil {
			_ = c.Validate([]byte(`{"a": [1, "b", null, {"c": true}]}`)) // must end, with any result
		}
		c, err := Compile(loose, toks)
		if err != nil {
			if !errors.Is(err, ErrLimit) && !errors.Is(err, ErrSyntax) {
				t.Fatalf("error of another class: %v", err)
			}
			return
		}
		walk(t, c, v)
	})
}

// walk draws one text and fails if an allowed token is rejected.
func walk(t *testing.T, c *Compiled, v *testVocab) {
	st, mask, rng := c.Start(), c.toks.NewMask(), rand.New(rand.NewPCG(1, 1))
	for n := range 100 {
		if err := st.Mask(mask); err != nil {
			if !errors.Is(err, ErrLimit) && !errors.Is(err, ErrStuck) {
				t.Fatal(err)
			}
			return
		}
		tok := pick(rng, mask, v, n > 30)
		if err := st.Accept(tok); err != nil {
			if errors.Is(err, ErrLimit) {
				return
			}
			t.Fatal(err)
		}
		if v.IsEOG(tok) {
			return
		}
	}
}

func FuzzGBNF(f *testing.F) {
	for _, s := range []string{
		`root ::= "a" | [b-d]* (root)? .{2,300}`, "root ::= x+\nx ::= [^\\x00-\\x1f\"] | <|call|> | <[3]>", `root ::= (("a"|"aa"){0,1000}){0,1000}`,
	} {
		f.Add(s)
	}
	v := newVocab("aa", "ab", "<x")
	toks, err := NewTokens(v)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := ParseGBNF(text)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatalf("error of another class: %v", err)
			}
			return
		}
		c, err := Compile(g, toks)
		if err != nil {
			if !errors.Is(err, ErrSyntax) && !errors.Is(err, ErrLimit) {
				t.Fatalf("error of another class: %v", err)
			}
			return
		}
		walk(t, c, v)
	})
}
