package device

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"godwit/engine/backend"
)

func TestNamed(t *testing.T) {
	for _, name := range []string{"cpu", "metal", "cuda", "hip", "emu"} {
		if d, err := Named(name); err != nil || d.Name() != name {
			t.Errorf("%q is %v, %v", name, d, err)
		}
	}
	if _, err := Named("abacus"); !errors.Is(err, backend.ErrNotBuilt) {
		t.Errorf("abacus: %v", err)
	}
}

// A backend that is not listed has no device and reports that it is not built.
func TestNames(t *testing.T) {
	names := Names()
	for name, systems := range map[string][]string{
		"cpu": {"linux", "darwin", "windows"}, "cuda": {"linux", "windows"}, "hip": {"linux", "windows"}, "emu": {"linux", "darwin"},
	} {
		if want := slices.Contains(systems, runtime.GOOS); slices.Contains(names, name) != want {
			t.Errorf("%s among %v: want %v", name, names, want)
		}
	}
	for _, d := range backends {
		if d.built {
			continue
		}
		if list, err := d.Devices(); len(list) > 0 {
			t.Errorf("%s has %d devices, %v", d.Name(), len(list), err)
		}
		if _, err := d.Open(0, backend.Options{}); !errors.Is(err, backend.ErrNotBuilt) {
			t.Errorf("%s: %v", d.Name(), err)
		}
	}
}

// TestOneEntry checks that a backend needs only its package and its entry here,
// because no other source of app names one.
func TestOneEntry(t *testing.T) {
	root := filepath.Join("..")
	checked := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.ToSlash(path) == "../device/device.go" {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		checked++
		for _, e := range backends {
			if e.Name() != "cpu" && strings.Contains(string(src), strconv.Quote(e.Name())) {
				t.Errorf("%s names the backend %s", path, e.Name())
			}
		}
		return nil
	})
	if err != nil || checked < 50 {
		t.Fatalf("%d files, %v", checked, err)
	}
}
