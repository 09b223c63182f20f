package prefix

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"godwit/engine/llm"
)

// A text of another origin is found by the store's salt alone, also after a restart. A
// list of origins that is damaged changes nothing else.
func TestElsewhere(t *testing.T) {
	dir := t.TempDir()
	var s *Store
	open := func() {
		s = Open(Options{Dir: dir, Disk: 64 << 20, Memory: 1 << 20})
	}
	open()
	first := Origin{ID: "one", Model: "m", Types: "f16/f16"}
	own := Origin{ID: "two", Model: "m", Types: "gw3/gw3"}
	other := Origin{ID: "three", Model: "n", Types: "gw3/gw3"}
	text := make([]llm.Token, 3*PageTokens+10)
	for i := range text {
		text[i] = llm.Token(i)
	}
	put := func(o Origin, salt string, pages int) {
		s.Know(o)
		at := s.RootOf(o, salt)
		for i := range pages {
			page := text[i*PageTokens : (i+1)*PageTokens]
			key := s.Next(at, page)
			s.Put(Record{Key: key, Parent: at, Before: i, Tokens: page, Data: []byte("data")})
			at = key
		}
	}
	check := func(what string, o Origin, salt string, want Elsewhere) {
		t.Helper()
		if got := s.Elsewhere(o, salt, text); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	put(first, "a", 2)
	put(own, "a", 3)
	check("the longer text is its own", own, "a", Elsewhere{Tokens: 2 * PageTokens, Types: "f16/f16"})
	check("another salt", own, "b", Elsewhere{})
	put(other, "a", 3)
	check("another model", own, "a", Elsewhere{Tokens: 3 * PageTokens, Model: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	open()
	s.Know(first)
	check("after a restart", first, "a", Elsewhere{Tokens: 3 * PageTokens, Types: "gw3/gw3"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, originsFile), []byte(`[{"id":`), 0o600); err != nil {
		t.Fatal(err)
	}
	open()
	check("a damaged list", own, "a", Elsewhere{})
	if m := s.Match(s.RootOf(own, "a"), text); m.Pages() != 3 {
		t.Errorf("a damaged list leaves %d pages", m.Pages())
	}
	for i := range 2 * mostOrigins {
		s.Know(Origin{ID: fmt.Sprint(i)})
	}
	if n := len(s.origins); n != mostOrigins || s.origins[n-1].ID != fmt.Sprint(2*mostOrigins-1) {
		t.Errorf("%d origins are known", n)
	}
	if err := s.Clear(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ClearFolder(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, originsFile)); !os.IsNotExist(err) {
		t.Errorf("the list of origins is left: %v", err)
	}
}
