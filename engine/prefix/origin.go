package prefix

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"godwit/engine/llm"
)

const (
	mostOrigins     = 64       // largest number of origins that a store remembers
	mostOriginBytes = 64 << 10 // largest file of origins that is read
)

// Origin describes what computed the bytes of pages.
type Origin struct {
	ID    string `json:"id"`    // hash of everything that determines what the bytes mean
	Model string `json:"model"` // identity of the model file
	Types string `json:"types"` // cache types of keys and values
}

// Elsewhere is the beginning of a text that a store has, but of another origin.
type Elsewhere struct {
	Tokens int    // whole pages
	Model  bool   // the model file is another one
	Types  string // the cache types if they differ
}

// Know remembers an origin, so that Elsewhere finds its texts.
func (s *Store) Know(o Origin) {
	s.mu.Lock()
	fresh := s.origins.add(o)
	list := slices.Clone(s.origins)
	s.mu.Unlock()
	if !fresh || s.disk == nil {
		return
	}
	if err := list.write(s.o.Dir); err != nil {
		s.log.Warn("cache types not remembered", "err", err)
	}
}

// Elsewhere finds the longest chain of another origin, with the same salt, that
// begins like a text.
func (s *Store) Elsewhere(own Origin, salt string, tokens []llm.Token) (best Elsewhere) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.origins {
		if o.ID == own.ID {
			continue
		}
		n := 0
		for at := s.nodes[s.RootOf(o, salt)]; at != nil && n+PageTokens <= len(tokens); n += PageTokens {
			page := tokens[n : n+PageTokens]
			if at = s.nodes[s.Next(at.key, page)]; at == nil || !slices.Equal(at.tokens, page) {
				break
			}
		}
		if n > best.Tokens {
			best = Elsewhere{Tokens: n, Model: o.Model != own.Model}
			if o.Types != own.Types {
				best.Types = o.Types
			}
		}
	}
	return best
}

// origins is a list of origins, the newest last.
type origins []Origin

// add appends an origin. It reports whether the list has changed.
func (l *origins) add(o Origin) bool {
	if slices.Contains(*l, o) {
		return false
	}
	*l = append(*l, o)
	if n := len(*l) - mostOrigins; n > 0 {
		*l = slices.Delete(*l, 0, n)
	}
	return true
}

// readOrigins reads the list of a folder. The list explains why a text is read
// again and decides nothing, so a damaged list counts as empty.
func readOrigins(dir string) (l origins) {
	path := filepath.Join(dir, originsFile)
	if info, err := os.Stat(path); err != nil || info.Size() > mostOriginBytes {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &l) != nil {
		return nil
	}
	return l[max(len(l)-mostOrigins, 0):]
}

func (l origins) write(dir string) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(dir, originsFile), data)
}
