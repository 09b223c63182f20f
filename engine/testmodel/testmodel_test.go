package testmodel

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
)

// The models are the ones that the golden data was made with, and opening one
// reads only its header.
func TestModels(t *testing.T) {
	for _, c := range []struct {
		golden string
		path   func(testing.TB) string
		arch   string
	}{
		{"smollm2.json", SmolLM2, "llama"},
		{"gemma3.json", Gemma3, "gemma3"},
	} {
		var want struct {
			SHA256 string `json:"model_sha256"`
		}
		if err := json.Unmarshal(golden.Read(t, "models", "real", c.golden), &want); err != nil {
			t.Fatal(err)
		}
		path := c.path(t)
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, file); err != nil {
			t.Fatal(err)
		}
		file.Close()
		if got := hex.EncodeToString(sum.Sum(nil)); got != want.SHA256 {
			t.Errorf("%s: SHA-256 is %s, the golden data has %s", path, got, want.SHA256)
		}
		start := time.Now()
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: opened in %v, identity %x", filepath.Base(path), time.Since(start), f.Identity())
		if f.Arch() != c.arch {
			t.Errorf("%s: architecture %q, want %q", path, f.Arch(), c.arch)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The vocabularies of llama.cpp open.
func TestVocabularies(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(LlamaCpp(t), "llama.cpp", "models", "*.gguf"))
	if err != nil || len(paths) < 15 {
		t.Fatalf("%d vocabularies, %v", len(paths), err)
	}
	for _, path := range paths {
		f, err := gguf.Open(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if tokens, ok := f.KV.Strings("tokenizer.ggml.tokens"); !ok || len(tokens) < 1000 {
			t.Errorf("%s: %d tokens", path, len(tokens))
		}
		f.Close()
	}
}
