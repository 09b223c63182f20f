package jinja

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"godwit/engine/internal/golden"
	"godwit/engine/testmodel"
)

// kinds maps the golden files' names for error classes to the sentinels.
var kinds = map[string]error{
	"type": ErrType, "undefined": ErrUndefined, "security": ErrSecurity, "runtime": ErrRuntime, "syntax": ErrSyntax,
	"limit": ErrLimit,
}

// check compares a rendering with Jinja2's result. A refusal must match in its
// exact text, any other error in its class.
func check(t *testing.T, pieces []Piece, err error, rendered *string, msg, kind string) {
	t.Helper()
	var raise *RaiseError
	switch {
	case rendered != nil && err != nil:
		t.Errorf("error %v, want\n%q", err, *rendered)
	case rendered != nil:
		if got := Text(pieces); got != *rendered {
			t.Errorf("got\n%q\nwant\n%q", got, *rendered)
		}
	case err == nil:
		t.Errorf("got\n%q\nwant error %s %q", Text(pieces), kind, msg)
	case kind == "raise":
		if !errors.As(err, &raise) || raise.Msg != msg {
			t.Errorf("error %v, want refusal %q", err, msg)
		}
	case kind != "" && !errors.Is(err, kinds[kind]):
		t.Errorf("error %v, want kind %s", err, kind)
	}
}

// TestVendorTemplates renders the chat templates of model vendors.
func TestVendorTemplates(t *testing.T) {
	var file struct {
		Now       string
		Templates []struct {
			Name, SHA256 string
			Cases        []struct {
				Name      string
				Input     json.RawMessage
				Rendered  *string
				Lenient   *string `json:"rendered_lenient"`
				Error     string
				ErrorKind string `json:"error_kind"`
			}
		}
	}
	if err := json.Unmarshal(golden.Read(t, "chat-templates", "renders.json"), &file); err != nil {
		t.Fatal(err)
	}
	now, err := time.Parse("2006-01-02T15:04:05", file.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(testmodel.LlamaCpp(t), "llama.cpp", "models", "templates")
	n := 0
	for _, tm := range file.Templates {
		source, err := os.ReadFile(filepath.Join(dir, tm.Name))
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(source); hex.EncodeToString(sum[:]) != tm.SHA256 {
			t.Fatalf("%s has another content than the golden file was made from", tm.Name)
		}
		tmpl, err := Parse(string(source), Limits{})
		if err != nil {
			t.Fatalf("%s: %v", tm.Name, err)
		}
		for _, c := range tm.Cases {
			n++
			t.Run(tm.Name+"/"+c.Name, func(t *testing.T) {
				vars, err := DecodeJSON(c.Input, true)
				if err != nil {
					t.Fatal(err)
				}
				want := c.Rendered
				if c.Lenient != nil {
					want = c.Lenient
				}
				pieces, err := tmpl.Render(context.Background(), vars.(*Dict), Options{Now: now})
				check(t, pieces, err, want, c.Error, c.ErrorKind)
			})
		}
	}
	if n < 1702 {
		t.Errorf("%d cases, want at least 1702", n)
	}
}

// TestFeatureTemplates renders templates that use one feature each.
func TestFeatureTemplates(t *testing.T) {
	var file []struct {
		Name, Template string
		BOS            string `json:"bos_token"`
		EOS            string `json:"eos_token"`
		Cases          []struct {
			Messages json.RawMessage
			Prompt   bool `json:"add_generation_prompt"`
			Rendered *string
			Error    string
		}
	}
	if err := json.Unmarshal(golden.Read(t, "models", "templates", "templates.json"), &file); err != nil {
		t.Fatal(err)
	}
	for _, tm := range file {
		tmpl, err := Parse(tm.Template, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", tm.Name, err)
		}
		for _, c := range tm.Cases {
			t.Run(tm.Name, func(t *testing.T) {
				messages, err := DecodeJSON(c.Messages, true)
				if err != nil {
					t.Fatal(err)
				}
				vars := NewDict()
				vars.Set("messages", messages)
				vars.Set("bos_token", Trusted(tm.BOS))
				vars.Set("eos_token", Trusted(tm.EOS))
				vars.Set("add_generation_prompt", Bool(c.Prompt))
				pieces, err := tmpl.Render(context.Background(), vars, Options{})
				check(t, pieces, err, c.Rendered, c.Error, "")
			})
		}
	}
}

// TestJinja2 compares expressions and statements with the results of Jinja2 3.1.6.
// testdata/README.md says how the file was made.
func TestJinja2(t *testing.T) {
	name := "testdata/jinja2.json"
	if other := os.Getenv("JINJA2_CASES"); other != "" {
		name = other
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Now    string
		Inputs map[string]json.RawMessage
		Cases  [][]*string
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	now, err := time.Parse("2006-01-02T15:04:05", file.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		source, input, want := *c[0], *c[1], c[2]
		t.Run(source, func(t *testing.T) {
			kind, msg := "", ""
			if want == nil {
				kind = *c[3]
				if text, ok := strings.CutPrefix(kind, "raise:"); ok {
					kind, msg = "raise", text
				}
			}
			vars, err := DecodeJSON(file.Inputs[input], true)
			if err != nil {
				t.Fatal(err)
			}
			tmpl, err := Parse(source, Limits{})
			var pieces []Piece
			if err == nil {
				pieces, err = tmpl.Render(context.Background(), vars.(*Dict), Options{Now: now})
			}
			check(t, pieces, err, want, msg, kind)
		})
	}
}
