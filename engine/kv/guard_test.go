package kv

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"godwit/engine/dtype"
)

// Extensions of sources that must not contain the name of a cache type, so that
// adding one touches one file. Shaders are included.
var guarded = []string{".go", ".ts", ".js", ".svelte", ".metal", ".cu", ".cl", ".comp", ".h", ".hpp", ".c", ".cpp", ".cc"}

// Folders without hand-written sources.
var unguarded = []string{"node_modules", "testdata", "dist", "wailsjs", ".git", "vendor"}

// Folders that may name types: the types themselves, and the presets and policies.
var naming = []string{"engine/kv", "engine/kv/layout"}

// cacheOnly matches names of cache types that are not also weight types: as a word
// in any case, with dashes and underscores treated alike, and inside a camelCase
// word.
func cacheOnly() *regexp.Regexp {
	var words, camel []string
	for _, t := range registry {
		for _, name := range append([]string{t.Name}, t.Aliases...) {
			if _, weight := dtype.Parse(name); weight {
				continue
			}
			words = append(words, strings.NewReplacer("-", "[-_]?", "_", "[-_]?").Replace(name))
			if !strings.ContainsAny(name, "-_") && name != "tq3" { // TQ3 is also a weight type
				camel = append(camel, strings.ToUpper(name), strings.ToUpper(name[:1])+name[1:])
			}
		}
	}
	slices.SortFunc(words, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`(?:^|[^A-Za-z0-9])((?i:` + strings.Join(words, "|") + `))(?:$|[^A-Za-z0-9])` +
		`|[a-z](` + strings.Join(camel, "|") + `)(?:$|[^a-z0-9])`)
}

// weightNames are weight types that begin like a cache type.
var weightNames = regexp.MustCompile(`(?i)tq[34]_1s`)

// Names that are only cache types do not occur in any source outside these folders.
// Tests, documents and command examples ("godwit ...") are exempt.
func TestGuard(t *testing.T) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	names := cacheOnly()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(unguarded, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains(guarded, filepath.Ext(path)) || isTest(d.Name()) || slices.Contains(naming, filepath.ToSlash(filepath.Dir(rel))):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for line, word := range namesIn(filepath.Ext(path), src, names) {
			t.Errorf("%s:%d: %q is a name of engine/kv; range over kv.Types or use the data of the type", filepath.ToSlash(rel), line, word)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isTest(name string) bool {
	for _, s := range []string{"_test.go", ".test.ts", ".spec.ts", ".test.js", ".spec.js"} {
		if strings.HasSuffix(name, s) {
			return true
		}
	}
	return false
}

// namesIn returns the guarded names in a source by line.
func namesIn(ext string, src []byte, names *regexp.Regexp) map[int]string {
	found := map[int]string{}
	add := func(line int, text string) {
		if strings.Contains(text, "godwit ") {
			return
		}
		if m := names.FindStringSubmatch(weightNames.ReplaceAllString(text, "")); m != nil {
			found[line] = m[1] + m[2]
		}
	}
	if ext != ".go" {
		for i, text := range strings.Split(string(src), "\n") {
			if at := strings.Index(text, "//"); at >= 0 {
				text = text[:at]
			}
			add(i+1, text)
		}
		return found
	}
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		switch tok {
		case token.EOF:
			return found
		case token.IDENT, token.STRING, token.CHAR:
			add(fset.Position(pos).Line, lit)
		}
	}
}

// The guard finds cache type names where they are forbidden and ignores them
// where they are allowed.
func TestGuardSees(t *testing.T) {
	names := cacheOnly()
	for _, c := range []struct {
		ext, src string
		found    bool
	}{
		{".go", `x := "turbo3"`, true},
		{".go", `x := kv.Turbo3`, true},
		{".go", `x := kv.OATurbo3`, true},
		{".go", `case "tbqp4_2":`, true},
		{".go", "x := `a, q4_0-rot, b`", true},
		{".go", `x := "q8_0" + "iq4_nl"`, false},
		{".go", `// turbo3 in a comment`, false},
		{".go", `x := "godwit chat m -ctv turbo3"`, false},
		{".go", `x := dtype.TQ3_1S`, false},
		{".go", `x := turbo3x`, false},
		{".ts", `const t = 'tq3_0'`, true},
		{".ts", `// tq3_0`, false},
		{".metal", `kernel void dot_turbo3 (`, true},
		{".metal", `turbo3_rotate(x)`, true},
		{".go", `func dotTurbo3() {}`, true},
		{".go", `f := formTQ3.decode`, false},
		{".go", `x := "tq3_1s"`, false},
		{".metal", `constant float turbo3[8]`, true},
		{".svelte", `<option>amx3</option>`, true},
	} {
		if got := len(namesIn(c.ext, []byte(c.src), names)) > 0; got != c.found {
			t.Errorf("%s %s: %v", c.ext, c.src, got)
		}
	}
}

// No policy rule names a type. Everything that rules need is in the type's literal.
// A policy may name the types that it assigns to layers, as the presets do.
func TestRulesAreData(t *testing.T) {
	var names []string
	for _, typ := range registry {
		if !typ.Float && typ != Q8_0 {
			names = append(names, strings.ReplaceAll(regexp.QuoteMeta(typ.Name), "-", "_?"))
		}
	}
	compared := regexp.MustCompile(`(?i)(==|!=|case)\s*"?(` + strings.Join(names, "|") + `)\b|\bHas(Suffix|Prefix)\(\w*\.?t?\.Name`)
	files, err := filepath.Glob("layout/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in layout: %v", err)
	}
	for _, f := range append(files, "fit.go", "heads.go") {
		if isTest(f) {
			continue
		}
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(src), "\n") {
			if m := compared.FindString(line); m != "" {
				t.Errorf("%s:%d: %q asks for one type", f, i+1, m)
			}
		}
	}
	if !compared.MatchString("if t == Turbo2 {") || !compared.MatchString(`strings.HasSuffix(t.Name, "_3")`) {
		t.Error("the pattern finds nothing")
	}
}
