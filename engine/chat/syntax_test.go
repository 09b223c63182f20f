package chat

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEverySyntaxHasAFile checks that every syntax has one file with one literal,
// and that no other code branches on the name of a syntax.
func TestEverySyntaxHasAFile(t *testing.T) {
	files, err := filepath.Glob("syntax_*.go")
	if err != nil {
		t.Fatal(err)
	}
	registered := map[string]string{}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		kinds := regexp.MustCompile(`(?m)^const (\w+) ParserKind = "([^"]+)"`).FindAllStringSubmatch(string(b), -1)
		if n := strings.Count(string(b), "register(Syntax{"); n != 1 || len(kinds) != 1 {
			t.Fatalf("%s: %d literals, %d kinds, want one of each", f, n, len(kinds))
		}
		registered[kinds[0][2]] = f
	}
	for _, kind := range ParserKinds() {
		if registered[string(kind)] == "" {
			t.Errorf("syntax %s has no file", kind)
		}
		delete(registered, string(kind))
	}
	if len(registered) > 0 {
		t.Errorf("not registered: %v", registered)
	}
}

// TestIncompleteSyntax checks that registering a syntax fails if a part is missing
// or its name or rank is taken.
func TestIncompleteSyntax(t *testing.T) {
	refused := func(name string, f func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		f()
	}
	whole := *syntaxes[Hermes]
	whole.Kind, whole.Detect = "test", []Sign{{9999, []string{"test"}}}
	for name, change := range map[string]func(s *Syntax){
		"no name":     func(s *Syntax) { s.Kind = "" },
		"name twice":  func(s *Syntax) { s.Kind = Hermes },
		"rank twice":  func(s *Syntax) { s.Detect = []Sign{{syntaxes[Hermes].Detect[0].Rank, []string{"test"}}} },
		"no grammar":  func(s *Syntax) { s.Call = nil },
		"no reader":   func(s *Syntax) { s.Marks = nil },
		"half a bare": func(s *Syntax) { s.Read = readJSON },
	} {
		s := whole
		change(&s)
		refused(name, func() { register(s) })
	}
	refused("unknown kind", func() { NewParser(ParserOptions{Kind: "unknown"}) })
	for _, kind := range []ParserKind{"", "unknown"} {
		if g, err := ToolGrammar(kind, testTools(t), GrammarOptions{}); err == nil {
			t.Errorf("a grammar for the kind %q: %s", fmt.Sprint(kind), g.GBNF)
		}
	}
}
