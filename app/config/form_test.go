package config

import (
	"errors"
	"testing"
)

func TestForms(t *testing.T) {
	for _, c := range []struct {
		form, text string
		ok         bool
	}{
		{"object", `{"a": 1}`, true},
		{"object", "[1]", false},
		{"object", "{", false},
		{"object", "null", false},
		{"object", "{} {}", false},
		{"url", "https://example.org/x", true},
		{"url", "http://127.0.0.1:8080", true},
		{"url", "foo", false},
		{"url", "ftp://example.org", false},
		{"url", "https://", false},
		{"origin", "https://example.org:8443", true},
		{"origin", "http://app.example/", true},
		{"origin", "tauri://localhost", true},
		{"origin", "notaurl", false},
		{"origin", "http://x/y", false},
		{"host", "box.local", true},
		{"host", "box:8080", true},
		{"host", "[::1]:80", true},
		{"host", "::1", true},
		{"host", "10.0.0.1", true},
		{"host", "http://x/y", false},
		{"host", "", false},
		{"host", "a b", false},
		{"key", "k", true},
		{"key", "", false},
		{"key", " \t", false},
	} {
		err := forms[c.form](c.text)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrValue) {
			t.Errorf("%s %q: %v", c.form, c.text, err)
		}
	}
}
