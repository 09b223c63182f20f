package cli

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine/gguf"
	"godwit/engine/testmodel"
)

// A hostile file cannot send control characters to the terminal, whether it is
// shown, used in a chat or rejected.
func TestHostileNames(t *testing.T) {
	f, err := gguf.Open(testmodel.Small(t, "llama-hd64"))
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
	for name, tensors := range map[string][]gguf.Tensor{"fine": f.Tensors, "refused": append(f.Tensors[:len(f.Tensors):len(f.Tensors)], extra)} {
		path := filepath.Join(t.TempDir(), name+"\x1b[31m.gguf")
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
			if refused := name == "refused"; code != 0 && !refused || code == 0 && refused && args[0] != "show" {
				t.Errorf("%s of %s: exit %d, %s", args[0], name, code, errs)
			}
			if i := strings.IndexAny(out+errs, "\x1b\a\u009b\u202e"); i >= 0 {
				t.Errorf("%s of %s: %.200q", args[0], name, (out + errs)[i:])
			}
		}
	}
}

// TestScreen checks that text from a model file cannot control a terminal, and is
// complete in a pipe.
func TestScreen(t *testing.T) {
	source := filepath.Join(t.TempDir(), "t.jinja")
	const said = "a\x1b[31m\u009b2J"
	if err := os.WriteFile(source, []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, screen := range []bool{false, true} {
		r := &run{ctx: t.Context(), in: strings.NewReader("[]"), out: bufio.NewWriter(&b), screen: screen}
		err := errors.Join((&templateCmd{File: source}).Run(r), r.json(map[string]string{"text": said}), r.out.Flush())
		if got := strings.ContainsAny(b.String(), "\x1b\u009b"); err != nil || got == screen {
			t.Errorf("on a terminal %v: %q, %v", screen, b.String(), err)
		}
		b.Reset()
	}
}

// TestSpoken checks that a model's output cannot control a terminal, and is
// unchanged in a file.
func TestSpoken(t *testing.T) {
	said := "a\x1b[31mb\u009bc\r\n\t\u202eش\u200c👩\u200d👧\x00"
	for screen, want := range map[bool]string{false: said, true: "a�[31mb�c\n\t\u202eش\u200c👩\u200d👧�"} {
		if got := (&run{screen: screen}).shown(said); got != want {
			t.Errorf("on a terminal %v: %q, want %q", screen, got, want)
		}
	}
}
