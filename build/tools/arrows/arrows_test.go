package main

import (
	"os"
	"path/filepath"
	"testing"
)

// count writes a package and counts its arrows.
func count(t *testing.T, files map[string]string) (arrows, up int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("package p\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return g.arrows(), len(g.up(g.order()))
}

func TestArrows(t *testing.T) {
	for name, c := range map[string]struct {
		files      map[string]string
		arrows, up int
	}{
		"down": {map[string]string{"a.go": "func A() { B(); C() }", "b.go": "func B() { C() }", "c.go": "func C() {}"}, 3, 0},
		"one circle": {map[string]string{
			"a.go": "func A() { B() }", "b.go": "func B() { C() }", "c.go": "func C() { A() }",
		}, 3, 1},
		"methods and fields": {map[string]string{
			"a.go": "type T struct{ F int }\nfunc (t T) Use() { t.Up() }", "b.go": "func (t T) Up() { t.F++ }",
		}, 2, 1},
		"through imports": {map[string]string{
			"a.go": "import \"net/http\"\nfunc A(w http.ResponseWriter) { w.Write(nil); B(w) }",
			"b.go": "import \"net/http\"\nfunc B(http.ResponseWriter) {}",
		}, 1, 0},
		"tests do not count":  {map[string]string{"a.go": "func A() {}", "a_test.go": "func T() { A() }"}, 0, 0},
		"locals do not count": {map[string]string{"a.go": "func A() { b := 1; _ = b }", "b.go": "func B() {}\nvar C = 1"}, 0, 0},
	} {
		if arrows, up := count(t, c.files); arrows != c.arrows || up != c.up {
			t.Errorf("%s: %d arrows, %d up, want %d and %d", name, arrows, up, c.arrows, c.up)
		}
	}
}
