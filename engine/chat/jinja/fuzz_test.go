package jinja

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"
)

// FuzzTemplate renders a random template with a fixed input. Rendering ends within
// its limits, with text or with one of the package's errors, and gives the same
// result twice.
func FuzzTemplate(f *testing.F) {
	data, err := os.ReadFile("testdata/jinja2.json")
	if err != nil {
		f.Fatal(err)
	}
	var file struct {
		Inputs map[string]json.RawMessage
		Cases  [][]*string
	}
	if err := json.Unmarshal(data, &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		f.Add(*c[0])
	}
	vars, err := DecodeJSON(file.Inputs["base"], true)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source, Limits{Steps: 20_000, Memory: 4 << 20, Output: 1 << 20})
		var texts [2]string
		for i := range texts {
			var pieces []Piece
			if err == nil {
				pieces, err = tmpl.Render(context.Background(), vars.(*Dict), Options{Now: time.Unix(1e9, 0).UTC()})
			}
			var fault *Error
			var raise *RaiseError
			if err != nil && !errors.As(err, &fault) && !errors.As(err, &raise) {
				t.Fatalf("%q: error %v is of no class", source, err)
			}
			texts[i] = Text(pieces)
		}
		if texts[0] != texts[1] {
			t.Fatalf("%q gives %q, then %q", source, texts[0], texts[1])
		}
	})
}
