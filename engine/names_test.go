package engine_test

import (
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/kv"
)

// TestCacheTypeNames checks that no source outside engine/kv and engine/kv/layout
// contains the name of a cache type, so that adding a type touches one file. Names that
// are also weight types are allowed, and so are names in tests, documents and comments.
func TestCacheTypeNames(t *testing.T) {
	var names []string
	for _, typ := range slices.Concat(kv.Types(), kv.Forms()) {
		for _, name := range append([]string{typ.Name}, typ.Aliases...) {
			if _, weights := dtype.Parse(name); !weights && name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 10 {
		t.Fatalf("only %d names: %v", len(names), names)
	}
	find := nameFinder(names)
	files := readWritten(t)
	checked := 0
	for file, data := range files {
		ext := path.Ext(file)
		source := slices.Contains([]string{".go", ".ts", ".js", ".svelte", ".h", ".metal", ".cu", ".cpp"}, ext)
		if !source || slices.Contains([]string{"engine/kv", "engine/kv/layout"}, path.Dir(file)) || isTest(file) {
			continue
		}
		checked++
		if name := find(ext, data); name != "" {
			t.Errorf("%s names the cache type %s; read it from kv.Types()", file, name)
		}
	}
	if checked == 0 {
		t.Error("no source was checked")
	}
	for source, want := range map[string]string{
		`package x; const a = "` + names[0] + `"`:            names[0],
		`package x; const a = "x` + names[0] + `"`:           "",
		`package x; var a = kv.` + strings.ToUpper("turbo3"): "turbo3",
		`package x // ` + names[0]:                           "",
	} {
		if got := find(".go", []byte(source)); got != want {
			t.Errorf("in %s the test finds %q, want %q", source, got, want)
		}
	}
}

// isTest reports whether a file belongs to tests.
func isTest(file string) bool {
	base := path.Base(file)
	return strings.Contains(base, "_test.") || strings.Contains(base, ".test.") || strings.Contains(base, ".spec.") ||
		strings.Contains(file, "/test/") || strings.Contains(file, "/tests/") || strings.Contains(file, "/e2e/") ||
		strings.HasSuffix(path.Dir(file), "test")
}

var codeComment = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*|<!--.*?-->`)

// nameFinder returns a function that finds the first name in a source. In Go it
// searches identifiers and strings, in other files all text except comments.
func nameFinder(names []string) func(ext string, data []byte) string {
	plain := map[string]string{} // identifier form to name
	quoted := make([]string, len(names))
	for i, name := range names {
		plain[squash(name)] = name
		quoted[i] = regexp.QuoteMeta(name)
	}
	word := regexp.MustCompile(`(?:^|[^\w-])(` + strings.Join(quoted, "|") + `)(?:$|[^\w-])`)
	inText := func(text string) string {
		if found := word.FindStringSubmatch(text); found != nil {
			return found[1]
		}
		return ""
	}
	return func(ext string, data []byte) string {
		if ext != ".go" {
			return inText(codeComment.ReplaceAllString(string(data), " "))
		}
		var s scanner.Scanner
		fset := token.NewFileSet()
		s.Init(fset.AddFile("", fset.Base(), len(data)), data, nil, 0)
		for {
			_, tok, lit := s.Scan()
			switch tok {
			case token.EOF:
				return ""
			case token.IDENT:
				if name, ok := plain[squash(lit)]; ok {
					return name
				}
			case token.STRING:
				if name := inText(lit); name != "" {
					return name
				}
			}
		}
	}
}

// squash maps a name and the identifiers made from it to one form.
func squash(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}
