package engine_test

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	maxFile = 500 // lines of a hand-written file
	maxFunc = 80  // lines of a Go function, from func to the closing brace
)

// written lists the extensions of hand-written files.
var written = []string{
	".go", ".ts", ".js", ".mjs", ".svelte", ".css", ".html", ".py", ".sh",
	".h", ".c", ".cpp", ".cc", ".cu", ".metal", ".m", ".sql",
}

// generatedMark is the line that marks generated files for Go tools.
var generatedMark = regexp.MustCompile(`(?m)^(//|#|/\*) Code generated .* DO NOT EDIT\.`)

// readWritten returns the hand-written files by path. A generated file must be
// recognisable in a listing: its name ends in _gen before the extension, it is
// assembly, or it is next to a nested module.
func readWritten(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	walk(t, true, func(name string) {
		ext := path.Ext(name)
		if !slices.Contains(written, ext) {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			return
		}
		if !generatedMark.Match(data[:min(len(data), 512)]) {
			files[name] = data
			return
		}
		nested, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(path.Dir(name)), "*", "go.mod"))
		if err != nil {
			t.Error(err)
		}
		if !strings.HasSuffix(strings.TrimSuffix(name, ext), "_gen") && len(nested) == 0 {
			t.Errorf("%s says it is generated; name it *_gen%s or keep its generator's module beside it", name, ext)
		}
	})
	return files
}

// TestLength checks files and functions against their limits. The entries of
// testdata/budget.txt are exceptions and must be exact.
func TestLength(t *testing.T) {
	long := map[string]int{}
	for name, data := range readWritten(t) {
		if n := bytes.Count(data, []byte("\n")); n > maxFile {
			long["file "+name] = n
		}
		if path.Ext(name) == ".go" {
			addLongFuncs(t, long, name, data)
		}
	}
	budget := readBudget(t)
	for _, key := range slices.Sorted(maps.Keys(long)) {
		if allowed := budget[key]; long[key] > allowed {
			t.Errorf("%s has %d lines, allowed are %d", key, long[key], max(allowed, limitOf(key)))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(budget)) {
		if now := long[key]; now < budget[key] {
			t.Errorf("budget.txt allows %d lines for %s, which needs %d: lower it", budget[key], key, now)
		}
	}
}

func limitOf(key string) int {
	if strings.HasPrefix(key, "file ") {
		return maxFile
	}
	return maxFunc
}

// addLongFuncs adds to long each function of a file that exceeds the limit.
func addLongFuncs(t *testing.T, long map[string]int, name string, data []byte) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, data, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return
	}
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
		if n > maxFunc {
			long[fmt.Sprintf("func %s %s", name, funcName(fn))] = n
		}
	}
}

// funcName returns Name, or Receiver.Name for a method.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	receiver := fn.Recv.List[0].Type
	for {
		switch x := receiver.(type) {
		case *ast.StarExpr:
			receiver = x.X
		case *ast.IndexExpr:
			receiver = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}

// readBudget returns the number of lines that each exception allows, by TestLength's keys.
func readBudget(t *testing.T) map[string]int {
	t.Helper()
	budget := readCounts(t, "budget.txt")
	for key, n := range budget {
		if n <= limitOf(key) {
			t.Fatalf("budget.txt: %q is not over the limit", key)
		}
	}
	return budget
}

// readCounts reads a file of testdata with a key and a number on each line.
func readCounts(t *testing.T, name string) map[string]int {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		n, err := strconv.Atoi(line[cut+1:])
		if cut < 0 || err != nil {
			t.Fatalf("%s: %q is not a key and a number", name, line)
		}
		counts[line[:cut]] = n
	}
	return counts
}

// TestAssembly checks that generated assembly is only in folders called asm, away
// from files that people read, and that it does not grow. testdata/assembly.txt
// has the number of lines in each folder and must be exact.
func TestAssembly(t *testing.T) {
	lines := map[string]int{}
	walk(t, true, func(name string) {
		if path.Ext(name) != ".s" {
			return
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			return
		}
		if !generatedMark.Match(data[:min(len(data), 512)]) {
			return
		}
		dir := path.Dir(name)
		if path.Base(dir) != "asm" {
			t.Errorf("%s is generated assembly outside a folder called asm", name)
		}
		lines[dir] += bytes.Count(data, []byte("\n"))
	})
	allowed := readCounts(t, "assembly.txt")
	for dir, n := range lines {
		switch {
		case n > allowed[dir]:
			t.Errorf("%s has %d lines of assembly, allowed are %d; a new kernel needs a benchmark that justifies its size", dir, n, allowed[dir])
		case n < allowed[dir]:
			t.Errorf("assembly.txt allows %d lines for %s, which needs %d: lower it", allowed[dir], dir, n)
		}
	}
	for dir := range allowed {
		if lines[dir] == 0 {
			t.Errorf("assembly.txt has an entry for %s, which has no assembly: remove it", dir)
		}
	}
}

// words lists patterns that no file may contain, each with the reason. They are
// split in two here, because this file is checked too.
var words = []struct {
	pattern *regexp.Regexp
	ext     string // extension of the files to check; empty for all
	reason  string
	allowed *regexp.Regexp // text around a match that makes it acceptable; nil: none
}{
	{regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`), "", "finish it, or write it down as an issue", nil},
	{regexp.MustCompile(`"[^"\n]*\b[Ff]ailed ` + `to\b`), ".go", "an error says what happened, with the numbers", nil},
	{regexp.MustCompile(`(^|[^\w.])/(wo` + `rk/|ro` + `ot/|ho` + `me/[a-z])`), "", "a path of one machine", nil},
	{regexp.MustCompile(`\bt\.(Skip|SkipNow|Skipf)\(\)`), ".go", "a skip says why", nil},

	// Plain English, see docs/testing.md.
	{regexp.MustCompile(`\b(is|are|was|were|be) no` + `ne\b`), "", "say what is missing: 'without one', 'not a ...'", nil},
	{
		regexp.MustCompile(`\b(is|are) n` + `o [a-z]+`), "", "say 'is not a ...'; a value that is not a number is NaN",
		regexp.MustCompile(`[Tt]here (is|are) no |(is|are) no (longer|more|less|better|worse|use|reason|good|proof|other|different|larger|smaller|faster|slower|wider)\b`),
	},
	{regexp.MustCompile(`\bbut f` + `or\b`), "", "say 'except'", nil},
	{regexp.MustCompile(`\b(is|are|was|were|be|been) to` + `ld\b`), "", "things are called with, receive, see or print; nobody tells them", nil},
	{regexp.MustCompile(`\b(go|goes|went) o` + `n\b`), "", "say 'continue'", nil},
	{regexp.MustCompile(`\bby tur` + `ns\b`), "", "say 'alternately'", nil},
	{regexp.MustCompile(`\b(be|is|are|was|were) ha` + `d\b`), "", "say 'available'", nil},
	{regexp.MustCompile(`\bof the` + `irs\b`), "", "repeat the noun", nil},
	{regexp.MustCompile(`\bas [\w' ]+ ha` + `s it\b`), "", "say 'as in ...'", nil},
	{
		regexp.MustCompile(`\S[ \t]+// (of|that|which|who|whose) `), ".go", "a comment beside code is a noun phrase or a sentence, not the rest of one",
		regexp.MustCompile("[\"`]"),
	},
}

// plainEnglish is the index of the first pattern about English.
const plainEnglish = 4

// prose lists the extensions of documents, in addition to the hand-written files.
var prose = []string{".md"}

// recorded reports whether the words of a file cannot change. This holds for the
// glossary, whose words the page's test searches for, and for kernel headers, whose
// comments are part of the hash in cuda/assembled.txt.
func recorded(name string) bool {
	return name == "frontend/src/lib/glossary.ts" || path.Dir(name) == "shaders" && path.Ext(name) == ".h"
}

// TestWords looks for text that should not be committed.
func TestWords(t *testing.T) {
	files := readWritten(t)
	walk(t, true, func(name string) {
		if slices.Contains(prose, path.Ext(name)) {
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
			if err != nil {
				t.Error(err)
			}
			files[name] = data
		}
	})
	for name, data := range files {
		for i, w := range words {
			if i >= plainEnglish && recorded(name) {
				break
			}
			if w.ext != "" && w.ext != path.Ext(name) {
				continue
			}
			for _, at := range w.pattern.FindAllIndex(data, -1) {
				if w.allowed != nil && w.allowed.Match(around(data, at)) {
					continue
				}
				line := 1 + bytes.Count(data[:at[0]], []byte("\n"))
				t.Errorf("%s:%d: %q: %s", name, line, data[at[0]:at[1]], w.reason)
			}
		}
	}
}

// around returns a match with a few bytes on both sides, within its line.
func around(data []byte, at []int) []byte {
	from, to := max(0, at[0]-8), min(len(data), at[1]+8)
	from += bytes.LastIndexByte(data[from:at[0]], '\n') + 1
	if n := bytes.IndexByte(data[at[1]:to], '\n'); n >= 0 {
		to = at[1] + n
	}
	return data[from:to]
}
