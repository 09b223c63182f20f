package grammar

import "testing"

// contentEncoding restricts texts to the encoding's alphabet. As the standard says,
// the other content keywords do not restrict texts.
func TestContentEncoding(t *testing.T) {
	toks := newTokens(t, newVocab())
	for _, c := range []struct {
		schema     string
		good, evil []string
	}{
		{`{"type":"string","contentEncoding":"base64"}`, []string{`""`, `"YQ=="`, `"YWI="`, `"YWJj"`, `"+/09"`}, []string{`"a"`, `"YQ"`, `"Y Q="`, `"YQ==YQ=="`, `"_-09"`}},
		{`{"contentEncoding":"Base64"}`, []string{`"YQ=="`}, []string{`"YQ"`, `1`}},
		{`{"type":"string","contentEncoding":"base64url"}`, []string{`"_-09"`, `"YQ"`, `"YQ=="`}, []string{`"+/09"`, `"Y"`}},
		{`{"type":"string","contentEncoding":"base32"}`, []string{`"ME======"`, `"MFRGGZDF"`}, []string{`"ME"`, `"me======"`}},
		{`{"type":"string","contentEncoding":"base16"}`, []string{`"00fF"`}, []string{`"0"`, `"0g"`}},
		{`{"type":"string","contentEncoding":"base16","minLength":3,"maxLength":5}`, []string{`"0011"`}, []string{`"00"`, `"001122"`}},
		{`{"type":"string","contentEncoding":"quoted-printable"}`, []string{`"any text"`}, nil},
		{`{"type":"string","contentMediaType":"application/json","contentSchema":{"type":"object"}}`, []string{`"any text"`}, nil},
	} {
		g, err := FromSchema([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		built := compile(t, g, toks)
		for _, doc := range c.good {
			if !accepts(t, built, doc) {
				t.Errorf("%s does not take %s", c.schema, doc)
			}
		}
		for _, doc := range c.evil {
			if accepts(t, built, doc) {
				t.Errorf("%s takes %s", c.schema, doc)
			}
		}
	}
	if _, err := FromSchema([]byte(`{"type":"string","contentEncoding":7}`)); err == nil {
		t.Error("an encoding that is a number is taken")
	}
}
