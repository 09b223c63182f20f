package cli

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godwit/app/device"
	"godwit/engine"
	"godwit/engine/cpu/kernel"
	"godwit/engine/quant"
	"godwit/engine/requant"
	"godwit/shaders"
)

var update = flag.Bool("update", false, "rewrite the generated tables of README.md")

const repository = "../.."

// TestReadmeTables compares the tables of README.md with the registries.
// go test ./app/cli -run Readme -update rewrites them.
func TestReadmeTables(t *testing.T) {
	path := filepath.Join(repository, "README.md")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	readme := string(data)
	for name, table := range map[string]string{
		"cache types": cacheTable(), "architectures": archTable(t), "weight types": weightTable(),
	} {
		begin, end := "<!-- generated: "+name+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(readme, begin)
		old, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("README.md has no table of %s: no %q with %q behind it", name, begin, end)
			continue
		}
		if old != table && !*update {
			t.Errorf("the table of %s is not current; run: go test ./app/cli -run Readme -update", name)
		}
		readme = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(readme), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// markdown renders rows of cells. The first row is the header.
func markdown(rows ...[]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	return b.String()
}

func cacheTable() string {
	rows := [][]string{{"type", "group", "bits per value", "times less than f16", "what it is"}}
	for _, r := range typeRows() {
		rows = append(rows, []string{"`" + r.Name + "`", r.Group, strconv.FormatFloat(r.Bits, 'f', -1, 64), fmt.Sprintf("%.2f", r.Ratio), r.Note})
	}
	return markdown(rows...)
}

func archTable(t *testing.T) string {
	models := archModels(t)
	rows := [][]string{append([]string{"architecture", "models"}, runners()...)}
	for _, arch := range engine.Archs() {
		if models[arch] == "" {
			t.Errorf("engine/arch does not say which models %s is for", arch)
		}
		rows = append(rows, append([]string{"`" + arch + "`", models[arch]}, slices.Repeat([]string{"yes"}, len(runners()))...))
	}
	return markdown(rows...)
}

// runners are the backends that can run every architecture. The emulator is for
// tests, and the GPU backends have not run on real devices yet.
func runners() []string {
	return slices.DeleteFunc(device.Names(), func(name string) bool {
		return slices.Contains([]string{"emu", "cuda", "hip", "metal"}, name)
	})
}

// archModels reads which models an architecture is for. Its function's comment says
// "openX opens MODELS", followed by a full stop, colon, semicolon or "which" and
// the differences.
func archModels(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, "engine", "arch", "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sources of architectures: %v", err)
	}
	openers, models := map[string]string{}, map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if _, text, ok := strings.Cut(strings.Join(strings.Fields(fn.Doc.Text()), " "), fn.Name.Name+" opens "); ok {
				for _, end := range []string{". ", ":", ";", ", which "} {
					text, _, _ = strings.Cut(text, end)
				}
				models[fn.Name.Name] = text
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				if arch, opener, ok := registration(n); ok {
					openers[arch] = opener
				}
				return true
			})
		}
	}
	for arch, opener := range openers {
		openers[arch] = strings.TrimSuffix(models[opener], ".")
	}
	return openers
}

// registration parses model.Register("arch", model.Arch{Open: opener, …}).
func registration(n ast.Node) (arch, opener string, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return "", "", false
	}
	fun, isSelector := call.Fun.(*ast.SelectorExpr)
	lit, isLit := call.Args[0].(*ast.BasicLit)
	a, isArch := call.Args[1].(*ast.CompositeLit)
	if !isSelector || fun.Sel.Name != "Register" || !isLit || !isArch {
		return "", "", false
	}
	for _, e := range a.Elts {
		field, ok := e.(*ast.KeyValueExpr)
		if !ok || field.Key.(*ast.Ident).Name != "Open" {
			continue
		}
		if id, ok := field.Value.(*ast.Ident); ok {
			opener = id.Name
		}
	}
	arch, err := strconv.Unquote(lit.Value)
	return arch, opener, err == nil && opener != ""
}

// weightTable lists the types of matrices. "decoded" means that rows are widened to
// float32 when they are read. Other types have kernels of their own, and those for
// GPUs have run only on the emulator.
func weightTable() string {
	written := map[string]bool{}
	for _, name := range requant.Types() {
		written[strings.ToUpper(name)] = true
	}
	rows := [][]string{{"weights", "bits per weight", "cpu", "GPU kernels", "`godwit quantize` writes"}}
	for _, ty := range quant.Types() {
		if name := ty.String(); strings.HasPrefix(name, "I") && !strings.HasPrefix(name, "IQ") || name == "F64" {
			continue // tensors of integers and doubles are not weights
		}
		how := "decoded"
		if kernel.Quantized(ty) || ty.IsFloat() {
			how = "kernels"
		}
		gpu := "none"
		if shaders.Weight(ty) {
			gpu = "yes"
		}
		var mixes []string
		for _, name := range slices.Sorted(maps.Keys(written)) {
			if name == ty.String() || strings.HasPrefix(name, ty.String()+"_") {
				mixes = append(mixes, name)
			}
		}
		bits := strconv.FormatFloat(8*float64(ty.Bytes())/float64(ty.Elems()), 'f', -1, 64)
		rows = append(rows, []string{ty.String(), bits, how, gpu, strings.Join(mixes, ", ")})
	}
	return markdown(rows...)
}

var link = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

// TestLinks checks that the files linked from the documents exist.
func TestLinks(t *testing.T) {
	docs, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "RATIONALE.md", "SECURITY.md"} {
		docs = append(docs, filepath.Join(repository, name))
	}
	for _, doc := range docs {
		data, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(data), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", doc, m[1], err)
			}
		}
	}
}
