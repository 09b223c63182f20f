package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// own lists the handlers of the server's own endpoints: memory, cache and API
// document.
var own = []string{"clearPrefixes", "kv", "kvPlan", "openapiDocument", "prefixes", "whoHolds"}

// The handlers of a dialect are in the dialect's package.
func TestHandlersOfDialects(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var found []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv != nil && last(fn.Recv.List[0].Type) == "Server" && handles(fn.Type) {
				found = append(found, fn.Name.Name)
			}
		}
	}
	slices.Sort(found)
	if !slices.Equal(found, own) {
		t.Errorf("methods of Server are handlers %v, want %v: those of a dialect belong to its package", found, own)
	}
}

// handles reports whether a function has the parameters and the result of a wire.Handler.
func handles(f *ast.FuncType) bool {
	var params []string
	for _, p := range f.Params.List {
		for range max(len(p.Names), 1) {
			params = append(params, last(p.Type))
		}
	}
	return slices.Equal(params, []string{"ResponseWriter", "Request"}) && f.Results != nil && len(f.Results.List) == 1 && last(f.Results.List[0].Type) == "error"
}

// last returns the name of a type without its package and star.
func last(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.StarExpr:
		return last(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.Ident:
		return x.Name
	}
	return ""
}
