package golden

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// The clone has every file of its list, unchanged, and no others.
func TestClone(t *testing.T) {
	root := filepath.Join(testdata(), "golden")
	want := make(map[string]string)
	for line := range strings.Lines(string(read(t, filepath.Join(root, "SHA256SUMS")))) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			t.Fatalf("SHA256SUMS: %q", line)
		}
		want[name] = sum
	}
	if len(want) < 800 {
		t.Errorf("SHA256SUMS lists %d files", len(want))
	}
	total := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		name := filepath.ToSlash(rel)
		if err != nil || name == "SHA256SUMS" || name == "README.md" {
			return err
		}
		data := read(t, path)
		total += len(data)
		switch sum, ok := want[name]; {
		case !ok:
			t.Errorf("%s is not in SHA256SUMS", name)
		case digest(data) != sum:
			t.Errorf("%s is not the file that SHA256SUMS lists", name)
		}
		delete(want, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range want {
		t.Errorf("%s is missing from the clone", name)
	}
	if total > 30<<20 {
		t.Errorf("the clone carries %d bytes of golden data, at most 30 MiB", total)
	}
}

// outcome calls f and reports whether f fails or skips the test.
func outcome(t *testing.T, f func(t testing.TB)) (failed, skipped bool) {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r.failed, r.skipped
}

// recorder is a test that only records how it ends.
type recorder struct {
	testing.TB
	failed, skipped bool
}

func (r *recorder) Fatalf(string, ...any) { r.failed = true; runtime.Goexit() }
func (r *recorder) Fatal(...any)          { r.failed = true; runtime.Goexit() }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true; runtime.Goexit() }

// A test fails if data of the clone is missing. It is skipped, with and without CI
// set, if data that only the additional folder may have is missing.
func TestPath(t *testing.T) {
	for _, ci := range []string{"", "true"} {
		t.Setenv("CI", ci)
		for _, c := range []struct {
			added           []string // files of the additional folder
			name            string
			failed, skipped bool
			from            string // "clone" or "added"
		}{
			{nil, "kv/index.json", false, false, "clone"},
			{nil, "kv", false, false, "clone"},
			{[]string{"vocab/a"}, "kv/index.json", false, false, "clone"},
			{[]string{"kv/index.json"}, "kv/index.json", false, false, "added"},
			{[]string{"kv/index.json"}, "kv/inputs/d64.f32", false, false, "clone"},
			{[]string{"kv/new/manifest.json"}, "kv/new/manifest.json", false, false, "added"},
			{nil, "kv/new/manifest.json", true, false, ""},
			{nil, "kv/indices.json", true, false, ""},
			{nil, "vocab/manifest.json", false, true, ""},
			{nil, "vocab", false, true, ""},
			{nil, "models/tiny/llama-hd64.gguf", false, true, ""},
			{[]string{"models/tiny/a.gguf"}, "models/tiny/a.gguf", false, false, "added"},
			{[]string{"models/tiny/a.gguf"}, "models/tiny/b.gguf", false, true, ""},
			{nil, "vocabulary", true, false, ""},
		} {
			dir := t.TempDir()
			for _, file := range c.added {
				path := filepath.Join(dir, filepath.FromSlash(file))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("GODWIT_GOLDEN", dir)
			var path string
			failed, skipped := outcome(t, func(t testing.TB) { path = Path(t, strings.Split(c.name, "/")...) })
			if failed != c.failed || skipped != c.skipped {
				t.Errorf("CI %q, %s beside %v: failed %v, skipped %v", ci, c.name, c.added, failed, skipped)
			}
			if from := strings.HasPrefix(path, dir); c.from != "" && from != (c.from == "added") {
				t.Errorf("%s beside %v is read from %s", c.name, c.added, path)
			}
		}
	}
}

// A file that is in the list but not in the clone fails, even if the additional
// folder has it.
func TestMissingFromClone(t *testing.T) {
	for _, name := range []string{"kv/index.json", "arch/manifest.json", "models/quant", "chat-templates/renders.json"} {
		if !inClone(t, name) {
			t.Errorf("%s is not in the list of the clone", name)
		}
	}
	if inClone(t, "kv/ind") || inClone(t, "vocab") {
		t.Error("the list has what is not in the clone")
	}
}

// The files contain the same bytes as those that arch/assemble.py writes.
func TestFormula(t *testing.T) {
	want := map[string]string{
		"llama":     "063d3505e77132094c68b1d93f7c1053d2f927e585bbe1bdf086823ef0c15424",
		"gemma4-e":  "4c14f735725ff491131266cac6855b27a4842f18c082a14cb350c0aa9fbcf7a4",
		"rwkv7":     "efa74f369dfbc537cee868c53a17f52295c3bdfc8b2e7778ed4f557e9371479a",
		"deepseek4": "f7e03d718e49493697336b1e1ab87e6fd53ed432552bf9cdce2b8ea0ea33b459",
		"t5":        "64ae0b78cfe13be66d9be4c1ed47e84c25ce47a8dac79ca6f05a53619f6d03a0",
	}
	for _, m := range Archs(t) {
		if sum, ok := want[m.Name]; ok && digest(m.File(t)) != sum {
			t.Errorf("%s has the digest %s, want %s", m.Name, digest(m.File(t)), sum)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("not in the manifest: %v", want)
	}
}

// Headers that are cut off or do not match the formula cause errors.
func TestBadHeaders(t *testing.T) {
	m := Archs(t)[0]
	head := read(t, filepath.Join(m.dir, m.Header))
	for n := 0; n < len(head)-64; n += 37 {
		if _, err := m.assemble(head[:n]); err == nil {
			t.Fatalf("%d bytes of a header of %d: no error", n, len(head))
		}
	}
	short := m
	short.Tensors = m.Tensors[1:]
	if _, err := short.assemble(head); err == nil {
		t.Error("without the formula of a tensor: no error")
	}
	both := m
	both.Values = map[string][]float32{m.Tensors[0].name: {1}}
	if _, err := both.assemble(head); err == nil {
		t.Error("with values and a formula: no error")
	}
}
