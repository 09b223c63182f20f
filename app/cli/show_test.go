package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine/gguf"
)

// A file that was made to be looked at says nothing to the terminal, whether it
// is shown, talked to or refused.
func TestHostileNames(t *testing.T) {
	f, err := gguf.Open(tinyModel(t, "llama-hd64.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const evil = "x\x1b[31m\a\u009b2J\u202ey"
	var kv []gguf.KV
	for k, v := range f.KV.All() {
		if k != "general.name" && k != "general.license" {
			kv = append(kv, gguf.KV{Key: k, Value: v})
		}
	}
	for _, k := range []string{"general.name", "general.license", "general." + evil} {
		kv = append(kv, gguf.KV{Key: k, Value: evil})
	}
	extra := f.Tensors[0]
	extra.Name = "blk.9." + evil
	t.Setenv("GODWIT_HOME", t.TempDir())
	for name, tensors := range map[string][]gguf.Tensor{"fine.gguf": f.Tensors, "refused.gguf": append(f.Tensors[:len(f.Tensors):len(f.Tensors)], extra)} {
		path := filepath.Join(t.TempDir(), name)
		out, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := gguf.Write(out, kv, tensors); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"show", path, "--tensors", "--metadata"}, {"chat", path, "-c", "64"}, {"kv", "plan", path, "-c", "64"},
		} {
			code, out, errs := call(t, args...)
			if refused := name == "refused.gguf"; code != 0 && !refused || code == 0 && refused && args[0] != "show" {
				t.Errorf("%s of %s: exit %d, %s", args[0], name, code, errs)
			}
			if i := strings.IndexAny(out+errs, "\x1b\a\u009b\u202e"); i >= 0 {
				t.Errorf("%s of %s: %.200q", args[0], name, (out + errs)[i:])
			}
		}
	}
}

// TestSpoken: what a model writes cannot steer a terminal; a file gets it as it is.
func TestSpoken(t *testing.T) {
	said := "a\x1b[31mb\u009bc\r\n\t\u202eش\u200c👩\u200d👧\x00"
	for screen, want := range map[bool]string{false: said, true: "a�[31mb�c\n\t\u202eش\u200c👩\u200d👧�"} {
		if got := (&run{screen: screen}).shown(said); got != want {
			t.Errorf("on a terminal %v: %q, want %q", screen, got, want)
		}
	}
}
