package engine_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "godwit"

// imports is the import order of the module, from the bottom up. Each line lists
// which of our packages the packages of a folder may import. With /..., a folder
// also covers everything below it that has no line of its own, and these
// packages may import each other. Every package may also import the leaves and the
// packages below its own folder.
const imports = `
	engine/dtype, engine/llm, engine/fault:
	engine/gguf/...: engine/dtype
	engine/fetch:
	engine/prefix: engine/fetch
	engine/testmodel: engine/fetch engine/internal/golden
	engine/quant/...:
	engine/kv:
	engine/kv/internal/sat:
	engine/kv/layout: engine/kv engine/kv/internal/sat
	engine/kv/pages: engine/kv/layout engine/kv engine/kv/internal/sat
	engine/graph/...:
	engine/ref/...: engine/graph engine/kv/layout engine/kv engine/quant
	engine/backend: engine/graph engine/kv/pages engine/kv/layout engine/kv engine/quant
	engine/backend/split: engine/backend engine/graph engine/kv/layout engine/kv
	engine/backend/backendtest/...: engine/backend engine/graph engine/kv/pages engine/kv/layout engine/kv engine/quant engine/ref
	shaders: engine/kv/layout engine/kv
	engine/cpu/...: engine/backend engine/graph engine/kv/layout engine/kv engine/quant
	engine/gpu/...: engine/backend engine/graph engine/kv/layout engine/kv engine/quant shaders
	shaders/emu/...: engine/gpu engine/backend shaders
	cuda/...: engine/gpu engine/backend shaders
	metal/...: engine/gpu engine/backend shaders
	engine/model/...: engine/graph engine/gguf engine/quant
	engine/arch/...: engine/model engine/graph
	engine/vision: engine/model engine/graph engine/gguf engine/quant engine/backend engine/kv/layout
	engine/tokenizer/...: engine/gguf
	engine/sample/...:
	engine/grammar/...: engine/tokenizer
	engine/chat/...:
	engine/draft:
	engine/sched/...: engine/model engine/kv/pages engine/kv/layout engine/kv engine/prefix engine/sample engine/grammar engine/backend
	engine/eval/corpus:
	engine/calibrate: engine/eval/corpus engine/cpu engine/backend engine/kv/pages engine/kv/layout engine/kv engine/model engine/sched engine/tokenizer
	engine/requant: engine/gguf engine/quant
	engine: engine/calibrate engine/cpu engine/prefix engine/draft engine/sched engine/chat/... engine/grammar engine/sample engine/tokenizer engine/arch engine/model engine/vision engine/backend/... engine/graph engine/kv/pages engine/kv/layout engine/kv engine/quant engine/gguf
	engine/eval/...: engine engine/kv/layout engine/kv engine/tokenizer
	app/telemetry, app/config, app/store/...:
	app/ledger: engine/fetch
	app/hub/...: engine/gguf engine/fetch
	app/device/...: app/config metal cuda shaders/emu engine/gpu engine/cpu engine/backend engine/backend/backendtest
	app/pool: engine app/hub app/telemetry
	app/tune: engine engine/fetch app/hub app/config
	app/keys: engine/fetch
	app/api/...: app/tune app/keys engine engine/sample engine/grammar engine/kv/layout engine/kv engine/tokenizer app/pool app/store app/hub app/config app/telemetry
	app/cli/...: app/tune app/keys app/ledger app/pool app/api app/api/page app/device app/store app/hub app/config app/telemetry engine engine/calibrate engine/eval engine/requant engine/sample engine/grammar engine/kv/layout engine/kv engine/chat/... engine/tokenizer engine/gguf engine/quant
	frontend:
	app: app/... engine/... frontend
	app/cmd/godwit: app/cli frontend
	.: app app/cli frontend
`

// leaves may be imported by every package.
var leaves = []string{"engine/dtype", "engine/llm", "engine/fault"}

// testOnly may be imported only by tests and by the named packages.
var testOnly = map[string][]string{
	"engine/ref":                 {"engine/backend/backendtest"},
	"engine/backend/backendtest": {"app/device", "engine/backend/backendtest/gotest"},
	"engine/internal/golden":     {"engine/backend/backendtest", "engine/testmodel"},
	"engine/internal/spent":      nil,
	"engine/testmodel":           nil,
}

// outside lists the packages that may import certain third-party libraries and parts of
// the standard library. The longest matching path applies. Other libraries may be
// imported only in app.
var outside = map[string][]string{
	"C":                               {"metal/..."},
	"golang.org/x/image":              {"engine/vision"},
	"golang.org/x/sys":                {"engine/...", "app/...", "cuda/...", "metal/...", "shaders/..."},
	"golang.org/x/text":               {"engine/tokenizer/...", "app/..."},
	"github.com/dlclark/regexp2/v2":   {"engine/grammar/...", "engine/tokenizer/..."},
	"github.com/google/jsonschema-go": {"engine/grammar/..."},
	"github.com/ebitengine/purego":    {"metal/...", "cuda/...", "shaders/emu/..."},
	"github.com/progrium/darwinkit":   {"metal/..."},
	"github.com/wailsapp/wails/v2":    {"app"},
	"github.com/alecthomas/kong":      {"app/cli/..."},
	"github.com/schollz/progressbar":  {"app/cli/..."},
	"github.com/charmbracelet/log":    {"app/telemetry"},
	"github.com/pelletier/go-toml/v2": {"app/config"},
	"modernc.org/sqlite":              {"app/store/..."},
	"database/sql":                    {"app/store/..."},
	"net/http":                        {"app/..."},
	"net":                             {"app/..."},
	"net/url":                         {"engine/...", "app/..."},
	"net/netip":                       {"engine/...", "app/..."},
	"os/exec":                         {"app/...", "shaders/emu/...", "cuda/gen", "engine/fetch"},
}

// sourceFile is one Go file of the module with its imports.
type sourceFile struct {
	path    string // path relative to the root, with slashes
	dir     string
	test    bool
	imports []string
}

// root is the root of the module, relative to this package's folder.
const root = ".."

// TestImportOrder checks every file, with any build tags, against the tables above.
func TestImportOrder(t *testing.T) {
	rules := parseRules(t)
	files := goFiles(t)
	if len(files) == 0 {
		t.Fatal("no Go file found")
	}
	for _, f := range files {
		rule, ok := rules.of(f.dir)
		if !ok && !f.test && !strings.HasPrefix(f.dir, "engine/internal/") {
			t.Errorf("%s: folder %s is not in the import table", f.path, f.dir)
			continue
		}
		for _, imp := range f.imports {
			if msg := rule.check(f, imp); msg != "" {
				t.Errorf("%s: imports %s: %s", f.path, imp, msg)
			}
		}
	}
}

// check returns the reason why a file must not import a path, or "".
func (r rule) check(f sourceFile, imp string) string {
	dir, ours := strings.CutPrefix(imp, module+"/")
	if !ours {
		return checkOutside(f, imp)
	}
	if f.test {
		if strings.HasPrefix(dir, "app/") && !within(f.dir, []string{"app/...", "app", "."}) {
			return "tests below app may not reach up to it"
		}
		return ""
	}
	if by, ok := testOnly[dir]; ok && !slices.Contains(by, f.dir) {
		return "only tests may"
	}
	if strings.HasPrefix(dir, f.dir+"/") || within(dir, leaves) || within(dir, []string{r.family}) || within(dir, r.may) {
		return ""
	}
	return "the import order does not allow it"
}

// checkOutside checks an import from outside the module.
func checkOutside(f sourceFile, imp string) string {
	best := ""
	for prefix := range outside {
		if (imp == prefix || strings.HasPrefix(imp, prefix+"/")) && len(prefix) > len(best) {
			best = prefix
		}
	}
	switch {
	case f.test:
		return ""
	case best != "" && within(f.dir, outside[best]):
		return ""
	case best != "":
		return "only " + strings.Join(outside[best], ", ") + " may"
	case strings.Contains(strings.Split(imp, "/")[0], ".") && !within(f.dir, []string{"app/...", "app"}):
		return "only app takes libraries that the table does not list"
	}
	return ""
}

// rule is a row of the table: the folder as written, and the allowed imports.
type rule struct {
	family string
	may    []string
}

// ruleSet maps folders, in the form of the table, to their rules.
type ruleSet map[string]rule

// of returns the rule of a folder. This is the folder's own row, or the row with
// /... of the nearest folder at or above it.
func (r ruleSet) of(dir string) (rule, bool) {
	if own, ok := r[dir]; ok {
		return own, true
	}
	for d := dir; ; d = path.Dir(d) {
		if above, ok := r[d+"/..."]; ok {
			return above, true
		}
		if d == "." || d == "/" {
			return rule{}, false
		}
	}
}

func parseRules(t *testing.T) ruleSet {
	t.Helper()
	rules := ruleSet{}
	for line := range strings.Lines(imports) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		left, right, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("import table: no colon in %q", line)
		}
		for dir := range strings.SplitSeq(left, ",") {
			dir = strings.TrimSpace(dir)
			if _, twice := rules[dir]; twice {
				t.Fatalf("import table: %s has two lines", dir)
			}
			rules[dir] = rule{dir, strings.Fields(right)}
		}
	}
	return rules
}

// within reports whether dir matches one of the patterns. A pattern that ends in
// /... also matches every directory below it.
func within(dir string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		above, all := strings.CutSuffix(p, "/...")
		return dir == above || all && strings.HasPrefix(dir, above+"/")
	})
}

// goFiles reads the imports of every Go file in the module, except nested modules
// (generators, tools) and testdata.
func goFiles(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	fset := token.NewFileSet()
	walk(t, false, func(name string) {
		if path.Ext(name) != ".go" {
			return
		}
		parsed, err := parser.ParseFile(fset, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ImportsOnly)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		f := sourceFile{path: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
		for _, spec := range parsed.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			f.imports = append(f.imports, imp)
		}
		files = append(files, f)
	})
	return files
}

// walk calls fn with the path of every file in the repository, relative to the root
// and with slashes. It skips hidden folders, testdata, and downloaded and built files.
// nested includes nested modules.
func walk(t *testing.T, nested bool, fn func(name string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !d.IsDir() {
			fn(name)
			return nil
		}
		switch base := path.Base(name); {
		case name == ".":
			return nil
		case strings.HasPrefix(base, ".") && base != ".ci", base == "testdata", base == "node_modules",
			name == "frontend/dist", name == "frontend/src/paraglide", name == "build/bin", name == "frontend/wailsjs":
			return fs.SkipDir
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(name), "go.mod")); err == nil && !nested {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestImportTable tests the checker itself with a few imports that must be rejected
// and a few that must not.
func TestImportTable(t *testing.T) {
	rules := parseRules(t)
	for _, c := range []struct {
		dir, imp string
		test, ok bool
	}{
		{"engine/ref", "godwit/engine/quant", false, true},
		{"engine/quant", "godwit/engine/kv", false, false},
		{"engine/kv/layout", "godwit/engine/kv/pages", false, false},
		{"engine/kv/pages", "godwit/engine/kv/layout", false, true},
		{"engine/cpu", "godwit/engine/kv/pages", false, false},
		{"engine/quant", "godwit/engine/dtype", false, true},
		{"engine/cpu", "godwit/engine/cpu/kernel", false, true},
		{"engine/cpu/kernel", "godwit/engine/graph", false, true},
		{"engine/cpu", "godwit/engine/ref", false, false},
		{"engine/cpu", "godwit/engine/ref", true, true},
		{"engine/cpu", "godwit/app/config", true, false},
		{"engine", "godwit/engine/sched", false, true},
		{"engine", "godwit/engine/internal/golden", false, false},
		{"app/api/openai", "godwit/engine", false, true},
		{"app/api/openai", "godwit/engine/sched", false, false},
		{"app/store", "modernc.org/sqlite", false, true},
		{"app/api", "modernc.org/sqlite", false, false},
		{"app/api", "net/http", false, true},
		{"engine/gguf", "net/http", false, false},
		{"engine/gguf", "golang.org/x/sys/unix", false, true},
		{"engine/gguf", "golang.org/x/text", false, false},
		{"app/cli", "github.com/wailsapp/wails/v2", false, false},
		{".", "godwit/app", false, true},
		{".", "godwit/engine", false, false},
	} {
		rule, ok := rules.of(c.dir)
		if !ok {
			t.Fatalf("%s has no rule", c.dir)
		}
		msg := rule.check(sourceFile{dir: c.dir, test: c.test}, c.imp)
		if (msg == "") != c.ok {
			t.Errorf("%s importing %s (test %v): %q, want allowed %v", c.dir, c.imp, c.test, msg, c.ok)
		}
	}
}
