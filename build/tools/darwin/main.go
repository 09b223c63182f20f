// Command darwin type-checks all packages of the module, including the window,
// as a macOS build with cgo sees them. It runs on any machine, because it
// assumes that values from C have the right types. It also finds calls of
// functions that darwinkit 0.5.0 implements wrongly (see faults). It prints the
// errors and fails.
//
//	go run -C build/tools ./darwin arm64 amd64
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// root is the module's folder, relative to build/tools.
const root = "../.."

func main() {
	failed := false
	for _, arch := range os.Args[1:] {
		n, errs, err := check(arch)
		if err != nil {
			fmt.Fprintln(os.Stderr, "darwin:", err)
			os.Exit(1)
		}
		for _, e := range errs {
			fmt.Fprintln(os.Stderr, e)
		}
		failed = failed || len(errs) > 0
		fmt.Printf("darwin/%s: %d packages type-checked, %d errors\n", arch, n, len(errs))
	}
	if failed {
		os.Exit(1)
	}
}

// listed is a package in the output of go list.
type listed struct {
	Dir, ImportPath   string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
	Error             *struct{ Err string }
}

// check type-checks the module and everything that it imports, for one
// architecture. Errors in third-party packages count too, because they would
// hide the module's own.
func check(arch string) (n int, errs []error, err error) {
	cmd := exec.Command("go", "list", "-e", "-deps", "-tags=desktop", "-json=Dir,ImportPath,GoFiles,CgoFiles,ImportMap,Error", "./...")
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=1", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		return 0, nil, fmt.Errorf("go list: %w", err)
	}
	c := &checker{fset: token.NewFileSet(), arch: arch, done: map[string]*types.Package{"unsafe": types.Unsafe}}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return 0, nil, err
		}
		if p.Error != nil {
			c.errs = append(c.errs, errors.New(p.Error.Err))
			continue
		}
		if p.ImportPath != "unsafe" {
			c.pkg(p)
			n++
		}
	}
	return n, c.errs, nil
}

// checker holds the packages checked so far.
type checker struct {
	fset *token.FileSet
	arch string
	done map[string]*types.Package
	errs []error
}

func (c *checker) pkg(p listed) {
	var files []*ast.File
	for _, name := range append(p.GoFiles, p.CgoFiles...) {
		f, err := parser.ParseFile(c.fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			c.errs = append(c.errs, err)
			continue
		}
		files = append(files, f)
	}
	conf := types.Config{
		FakeImportC: true, Sizes: types.SizesFor("gc", c.arch), Importer: importer{c, p.ImportMap},
		IgnoreFuncBodies: !ours(p.ImportPath),
		Error:            func(err error) { c.errs = append(c.errs, err) },
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	c.done[p.ImportPath], _ = conf.Check(p.ImportPath, c.fset, files, info)
	if ours(p.ImportPath) {
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					c.call(call, info)
				}
				return true
			})
		}
	}
}

// call reports a call of a darwinkit function that must not be called.
func (c *checker) call(call *ast.CallExpr, info *types.Info) {
	var name *ast.Ident
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	default:
		return
	}
	fn, ok := info.Uses[name].(*types.Func)
	if !ok || fn.Pkg() == nil || !strings.HasPrefix(fn.Pkg().Path(), "github.com/progrium/darwinkit/") {
		return
	}
	if what := faults(fn.Signature()); what != "" {
		c.errs = append(c.errs, fmt.Errorf("%s: %s %s: send the selector instead", c.fset.Position(call.Pos()), fn.Name(), what))
	}
}

// faults returns the reason why a darwinkit function with this signature must
// not be called, or "". For results of less than eight bytes, darwinkit writes
// eight. It panics on an argument that is a protocol's object, and makes blocks
// that fail with current Go.
func faults(s *types.Signature) string {
	for v := range s.Results().Variables() {
		if b, ok := v.Type().Underlying().(*types.Basic); ok {
			switch b.Kind() {
			case types.Bool, types.Int8, types.Uint8, types.Int16, types.Uint16, types.Int32, types.Uint32, types.Float32:
				return "returns a " + v.Type().String()
			}
		}
	}
	for v := range s.Params().Variables() {
		switch v.Type().Underlying().(type) {
		case *types.Interface:
			return "takes an object of a protocol"
		case *types.Signature:
			return "takes a block"
		}
	}
	return ""
}

// ours reports whether a package belongs to this module, so that its calls are
// checked too.
func ours(path string) bool { return path == "godwit" || strings.HasPrefix(path, "godwit/") }

// importer finds packages that were already checked.
type importer struct {
	c    *checker
	real map[string]string // import path to real path, for vendored packages
}

func (i importer) Import(path string) (*types.Package, error) {
	if p := i.real[path]; p != "" {
		path = p
	}
	if p := i.c.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is missing", path)
}
