//go:build linux || darwin

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/fault"
	"godwit/engine/gguf"
	"godwit/engine/requant"
)

// goneEnv is the environment variable with which TestGone passes the step and the file
// to a child process.
const goneEnv = "GODWIT_TEST_GONE"

// goneSteps open and use a model. cut truncates the file at the moment that the key
// names. Each step returns the error of the code that reads the missing pages.
var goneSteps = map[string]func(ctx context.Context, path string, cut func(path string)) error{
	"before the architecture": func(_ context.Context, path string, cut func(string)) error {
		f, err := gguf.Open(path)
		if err != nil {
			return err
		}
		cut(path)
		f.Identity()
		return f.Gone()
	},
	"before the weights": func(ctx context.Context, path string, cut func(string)) error {
		n := 0
		e, err := engine.Open(ctx, path, engine.Options{Context: 64, Parallel: 1, Threads: 2, Progress: func(float64) error {
			if n++; n == 1 {
				cut(path)
			}
			return nil
		}})
		if err != nil {
			return err
		}
		return errors.Join(errors.New("it opened"), e.Close())
	},
	"before the engine": func(ctx context.Context, path string, cut func(string)) error {
		m, err := engine.OpenModel(path)
		if err != nil {
			return err
		}
		defer m.Close()
		cut(path)
		if _, err := m.Tokenizer(); err != nil { // metadata is in memory
			return fmt.Errorf("tokenizer: %w", err)
		}
		if _, err := m.Render(ctx, &engine.Chat{Messages: []byte(`[{"role":"user","content":"a"}]`)}); err != nil {
			return fmt.Errorf("template: %w", err)
		}
		return m.File.Gone()
	},
	"before an answer from the file": func(ctx context.Context, path string, cut func(string)) error {
		e, err := engine.Open(ctx, path, engine.Options{Context: 64, Parallel: 1, Threads: 2, NoRepack: true})
		if err != nil {
			return err
		}
		defer e.Close()
		cut(path)
		_, _, err = e.Answer(ctx, engine.Request{Prompt: "a b c", MaxTokens: 3, IgnoreEOG: true})
		return err
	},
	"before an answer from memory": func(ctx context.Context, path string, cut func(string)) error {
		e, err := engine.Open(ctx, path, engine.Options{Context: 64, Parallel: 1, Threads: 2})
		if err != nil {
			return err
		}
		defer e.Close()
		cut(path)
		if _, _, err := e.Answer(ctx, engine.Request{Prompt: "a b c", MaxTokens: 3, IgnoreEOG: true}); err != nil {
			return fmt.Errorf("repacked weights: %w", err)
		}
		return fmt.Errorf("%s: %w", path, fault.ErrGone) // the file is no longer read
	},
	"while an answer is written from the file": func(ctx context.Context, path string, cut func(string)) error {
		e, err := engine.Open(ctx, path, engine.Options{Context: 64, Parallel: 1, Threads: 2, NoRepack: true})
		if err != nil {
			return err
		}
		defer e.Close()
		n := 0
		for _, err := range e.Generate(ctx, engine.Request{Prompt: "a b c", MaxTokens: 40, IgnoreEOG: true}) {
			if err != nil {
				return err
			}
			if n++; n == 2 {
				cut(path)
			}
		}
		// The engine runs ahead of its reader, so it may have finished before the
		// cut.
		_, _, err = e.Answer(ctx, engine.Request{Prompt: "d e f", MaxTokens: 3, IgnoreEOG: true})
		return err
	},
	"while it is quantised": func(ctx context.Context, path string, cut func(string)) error {
		n := 0
		_, err := requant.Quantize(ctx, path, path+".q8", "q8_0", func(float64) error {
			if n++; n == 1 {
				cut(path)
			}
			return nil
		})
		return err
	},
	"the adapter": func(ctx context.Context, path string, cut func(string)) error {
		adapter := filepath.Join(filepath.Dir(path), "adapter.gguf")
		n := 0
		e, err := engine.Open(ctx, path, engine.Options{Context: 64, Parallel: 1, Threads: 2, LoRA: []engine.LoRA{{Path: adapter}}, Progress: func(float64) error {
			if n++; n == 1 {
				cut(adapter)
			}
			return nil
		}})
		if err != nil {
			return err
		}
		return errors.Join(errors.New("it opened"), e.Close())
	},
}

// TestGone truncates a mapped file at several moments, each in a separate process.
// The process survives, and its error names the file.
func TestGone(t *testing.T) {
	if step, path, ok := strings.Cut(os.Getenv(goneEnv), "="); ok {
		err := goneSteps[step](t.Context(), path, func(path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
		})
		fmt.Printf("GONE %v %v\n", errors.Is(err, fault.ErrGone), err)
		return
	}
	m := tiny(t, "llama-hd64")
	for step := range goneSteps {
		t.Run(step, func(t *testing.T) {
			path := m.write(t)
			name := filepath.Base(path)
			if step == "the adapter" {
				dir := t.TempDir()
				path = llamaMerged().save(t, dir, "base")
				name = filepath.Base(adapterOf(llamaMerged(), "blk.0.attn_qkv.weight").save(t, dir, "adapter"))
			}
			//nolint:gosec // the test binary itself
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGone$", "-test.count=1")
			cmd.Env = append(os.Environ(), goneEnv+"="+step+"="+path)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "GONE true ") || !strings.Contains(string(out), name) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
