package hub

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestPullProjector pulls a model from a repository with projectors. One projector
// is stored next to the model. It is not listed, and it is removed together with
// the last model.
func TestPullProjector(t *testing.T) {
	model, projector := tinyModel(t, 30_000, 1), []byte("a projector")
	h := newHub(t, map[string][]byte{
		file: model, "own/tiny-GGUF/mmproj-F16.gguf": projector,
		"own/tiny-GGUF/mmproj-BF16.gguf": []byte("b"), "own/tiny-GGUF/mmproj-F32.gguf": []byte("c"),
	})
	l := h.library(t, Options{})
	var last Progress
	m, err := l.Pull(t.Context(), "own/tiny-GGUF", func(p Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(m.Path), "mmproj-F16.gguf")
	if got, err := os.ReadFile(beside); err != nil || !bytes.Equal(got, projector) {
		t.Errorf("beside the model: %q, %v", got, err)
	}
	if want := int64(len(model) + len(projector)); last.Done != want || last.Total != want {
		t.Errorf("the last progress is %+v, want %d bytes", last, want)
	}
	for _, name := range []string{"mmproj-BF16.gguf", "mmproj-F32.gguf"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(m.Path), name)); err == nil {
			t.Errorf("%s was downloaded too", name)
		}
	}
	list, err := l.List()
	if err != nil || len(list) != 1 {
		t.Errorf("%d models, %v", len(list), err)
	}
	if err := l.Remove(t.Context(), m.Name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(beside); err == nil {
		t.Error("the projector is left behind the last model")
	}
}
