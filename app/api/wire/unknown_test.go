package wire

import (
	"bytes"
	"strings"
	"testing"
)

type inner struct {
	A int `json:"a"`
}

type outer struct {
	Sampling
	One  *inner  `json:"one"`
	List []inner `json:"list"`
	Text string  `json:"text"`
	Stop Stops   `json:"stop"`
}

func TestIgnored(t *testing.T) {
	for body, want := range map[string]string{
		`{"text":"x","temperature":1,"top_k":2,"logit_bias":{"x":1},"stop":["a"],"one":{"a":1},"list":[{"a":1}]}`: "",
		`{"tempature":1,"text":"a\"}b","one":{"b":{"c":[1,{"d":2}]},"a":2}}`:                                      "tempature, one.b",
		`{ "list" : [ {"a":1} , {"z":1,"z":2} ] , "y" : null , "x" : "\\" }`:                                      "list[1].z, x",
		`{"te\u0078t":"x","a,b\r\nSet-Cookie: x":1,"é":2}`:                                                        "a%2Cb%0D%0ASet-Cookie%3A%20x, %C3%A9",
		`{"` + strings.Repeat("k", 200) + `":1}`:                                                                  strings.Repeat("k", 64) + "...",
		`{"TEXT":1}`:                                                                                              "TEXT",
		`[{"q":1}]`:                                                                                               "[0].q", `"x"`: "", ``: "", `{`: "", `{"a`: "", `{"a":`: "", `{"a":1`: "", `{"a"1}`: "", `{"one":{"q":[}`: "",
	} {
		if got := Ignored([]byte(body), outer{}); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
	var many bytes.Buffer
	many.WriteByte('{')
	for i := range 3000 {
		if i > 0 {
			many.WriteByte(',')
		}
		many.WriteString(`"k` + strings.Repeat("x", i%90) + `":1`)
	}
	many.WriteByte('}')
	if got := Ignored(many.Bytes(), outer{}); len(got) > 2<<10 || !strings.Contains(got, "more") || strings.ContainsAny(got, "\r\n") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := Ignored([]byte(`{"x":1}`), nil); got != "" {
		t.Errorf("a request without a type: %q", got)
	}
}

// Ignored reads any bytes without a panic, and its value is always valid in a
// header.
func FuzzIgnored(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"list":[{"b":2}]}`, `{"one":`, `{"\u00`, `[[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got := Ignored(body, outer{})
		if len(got) > 2<<10 {
			t.Errorf("%d bytes", len(got))
		}
		for i := range len(got) {
			if got[i] < ' ' || got[i] > '~' {
				t.Errorf("%q", got)
			}
		}
	})
}
