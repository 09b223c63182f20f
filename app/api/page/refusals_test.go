package page

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// words matches a text for people: two words of letters.
var words = regexp.MustCompile(`[A-Za-z]{2,},? [a-z]{2,}`)

// elsewhere lists the functions and constants with texts of other kinds.
var elsewhere = []string{
	"diagnose",     // a report for developers
	"titleRequest", // for the model
	"variables",    // a layout of dates
	"demo",         // data of a model
	"keyed",        // a key
	"errOthers",    // never sent
	"newStream",    // a header
}

// TestRefusals tests that every text that an endpoint can answer with is in
// refusals.go.
func TestRefusals(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := f.Name(); strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && name != "refusals.go" {
			for _, text := range textsIn(t, name) {
				t.Errorf("%s: the text %s belongs in refusals.go", name, text)
			}
		}
	}
	for name, source := range map[string]string{
		"sentence":  `func f() error { return errors.New("this is wrong") }`,
		"part":      `func f(n int) error { return fmt.Errorf("%w: no such %d thing", e, n) }`,
		"composite": `func f() error { return &refusal{404, "x", "cannot find it"} }`,
		"sum":       `func f(m string) string { return m + " is not loaded" }`,
		"constant":  `const gone = "it is gone"`,
	} {
		file := name + ".go"
		t.Chdir(t.TempDir())
		if err := os.WriteFile(file, []byte("package page\n"+source), 0o600); err != nil {
			t.Fatal(err)
		}
		if len(textsIn(t, file)) != 1 {
			t.Errorf("%s: the test does not find %s", name, source)
		}
	}
}

// textsIn returns the texts for people in a file. Tags, imports, log events and the
// exceptions do not count.
func textsIn(t *testing.T, file string) (list []string) {
	t.Helper()
	tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			x.Tag = nil
		case *ast.FuncDecl:
			return !slices.Contains(elsewhere, x.Name.Name)
		case *ast.ValueSpec:
			return !slices.ContainsFunc(x.Names, func(id *ast.Ident) bool { return slices.Contains(elsewhere, id.Name) })
		case *ast.CallExpr:
			if f, ok := x.Fun.(*ast.SelectorExpr); ok {
				in, _ := f.X.(*ast.SelectorExpr)
				return in == nil || in.Sel.Name != "log"
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(x.Value)
			if x.Kind == token.STRING && err == nil && words.MatchString(" "+text) && !pattern(text) {
				list = append(list, x.Value)
			}
		}
		return true
	})
	return list
}

// pattern reports whether a text is the pattern of an endpoint.
func pattern(text string) bool {
	_, path, ok := strings.Cut(text, " ")
	return ok && strings.HasPrefix(path, "/app/")
}

// TestRefusalTexts tests that the texts follow the rules for the page's words.
func TestRefusalTexts(t *testing.T) {
	tree, err := parser.ParseFile(token.NewFileSet(), "refusals.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	never := regexp.MustCompile(`(?i)(%[.\d]*[qsv]|this|that|it) is no ([^l]|l[^o])|\b(none|failed to|invalid|please|unset|but[ ]for|another than|asked for|oops|sorry)\b|--|!`)
	seen := map[string]string{}
	ast.Inspect(tree, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) == 0 {
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		name := spec.Names[0].Name
		if other, twice := seen[text]; twice {
			t.Errorf("%s and %s are the same text", name, other)
		}
		seen[text] = name
		first, end := []rune(text)[0], text[len(text)-1]
		refusal := strings.HasPrefix(name, "text")
		switch {
		case never.MatchString(text):
			t.Errorf("%s: %q has words that the page does not use", name, text)
		case len(text) > 220:
			t.Errorf("%s has %d letters", name, len(text))
		case refusal && unicode.IsUpper(first) && !strings.HasPrefix(text, "Godwit "):
			t.Errorf("%s: %q begins with a capital letter", name, text)
		case refusal && (end == '.' || end == '!'):
			t.Errorf("%s: %q ends like a sentence", name, text)
		case !refusal && end != '.' && name != "adviceRoom":
			t.Errorf("%s: %q does not end with a full stop", name, text)
		}
		return false
	})
	if len(seen) < 40 {
		t.Errorf("only %d texts were found", len(seen))
	}
}
