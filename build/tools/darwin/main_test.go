package main

import (
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The checker finds what a compiler would find, without checking C, and also
// calls of darwinkit that fail at run time.
func TestPkg(t *testing.T) {
	c := &checker{fset: token.NewFileSet(), arch: "arm64", done: map[string]*types.Package{"unsafe": types.Unsafe}}
	c.pkg(write(t, "github.com/progrium/darwinkit/kit", `package kit
import "C"
type P interface{ M() }
func Size() uint { return uint(C.size()) }
func Flag() bool { return false }
func Take(P) {}
func Later(func()) {}
`))
	c.pkg(write(t, "godwit/x", `package x
import "github.com/progrium/darwinkit/kit"
func f() uint {
	kit.Take(nil)
	kit.Later(nil)
	if kit.Flag() {
		return kit.Missing()
	}
	return kit.Size()
}
`))
	var got []string
	for _, e := range c.errs {
		got = append(got, e.Error())
	}
	want := []string{"undefined: kit.Missing", "Take takes an object", "Later takes a block", "Flag returns a bool"}
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i, w := range want {
		if !strings.Contains(got[i], w) {
			t.Errorf("%q does not say %q", got[i], w)
		}
	}
}

func write(t *testing.T, path, text string) listed {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return listed{Dir: dir, ImportPath: path, GoFiles: []string{"x.go"}}
}
