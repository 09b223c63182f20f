package device

import (
	"errors"
	"runtime"
	"slices"
	"testing"

	"godwit/engine/backend"
)

func TestDriver(t *testing.T) {
	for name, want := range map[string]string{"": "cpu", "auto": "cpu", "cpu": "cpu", "metal": "metal", "cuda": "cuda", "hip": "hip", "emu": "emu"} {
		if d, err := Driver(name); err != nil || d.Name() != want {
			t.Errorf("%q is %v, %v; want %s", name, d, err, want)
		}
	}
	if _, err := Driver("abacus"); !errors.Is(err, backend.ErrNotBuilt) {
		t.Errorf("abacus: %v", err)
	}
}

// What is not listed has no device and says that it is not built.
func TestNames(t *testing.T) {
	names := Names()
	for name, systems := range map[string][]string{
		"cpu": {"linux", "darwin", "windows"}, "cuda": {"linux", "windows"}, "hip": {"linux", "windows"}, "emu": {"linux", "darwin"},
	} {
		if want := slices.Contains(systems, runtime.GOOS); slices.Contains(names, name) != want {
			t.Errorf("%s among %v: want %v", name, names, want)
		}
	}
	for _, d := range drivers() {
		if built[d.Name()] {
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
