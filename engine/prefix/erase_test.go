package prefix

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"godwit/engine/llm"
)

// endOf returns the key of the last whole page of a text.
func endOf(s *Store, root Key, tokens []llm.Token) Key {
	at := root
	for i := 0; i+PageTokens <= len(tokens); i += PageTokens {
		at = s.Next(at, tokens[i:i+PageTokens])
	}
	return at
}

// An erased text leaves nothing in memory and on disk, also after a restart. What another
// text shares with it stays.
func TestErase(t *testing.T) {
	dir := t.TempDir()
	shared := text(1, 3*PageTokens)
	a, b := slices.Concat(shared, text(2, 200)), slices.Concat(shared, text(3, 200))
	short := text(4, 20)
	for _, onDisk := range []bool{false, true} {
		folder := ""
		if onDisk {
			folder = dir
		}
		s, _ := open(t, folder, 8<<20, 8<<20)
		root := s.Root([]byte("model"))
		for _, tokens := range [][]llm.Token{a, b, short} {
			keep(s, root, tokens, 300)
		}
		s.Sync()
		want(t, s, root, a, 300, 6, 1)
		s.Erase(endOf(s, root, a))
		s.Erase(root) // the short text has no whole page
		if err := tree(s); err != nil {
			t.Fatal(err)
		}
		if !onDisk {
			want(t, s, root, a, 300, 3, 0)
			want(t, s, root, b, 300, 6, 1)
			continue
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, name := range files(t, dir, chunkEnding) {
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, tokens := range [][]llm.Token{a[3*PageTokens : 4*PageTokens], a[6*PageTokens:], short} {
				if bytes.Contains(raw, tokenBytes(tokens)) {
					t.Errorf("%d erased tokens are still in the file", len(tokens))
				}
			}
			for part := range 2 {
				if bytes.Contains(raw, data(a[:4*PageTokens], part, 300)) {
					t.Error("erased data is still in the file")
				}
			}
		}
		s, l := open(t, dir, 8<<20, 8<<20)
		want(t, s, root, a, 300, 3, 0)
		want(t, s, root, b, 300, 6, 1)
		keep(s, root, a, 300)
		s.Sync()
		want(t, s, root, a, 300, 6, 1)
		if l.lines() > 0 {
			t.Errorf("logged: %s", l.Bytes())
		}
	}
}
