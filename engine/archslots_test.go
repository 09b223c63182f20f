package engine_test

import (
	"bytes"
	"slices"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
)

// TestArchSlots saves the slot of every model with recurrent states or unusual
// rows. Another engine restores it and continues the text, with the same results
// as an engine that has read the whole text.
func TestArchSlots(t *testing.T) {
	archs := []string{
		"arwkv7", "bailingmoe3", "deepseek32", "dots3note", "gemma3n", "glm-dsa", "hy_v4", "jamba",
		"kimi-k3", "kimi-linear", "mamba", "minimax-01", "plamo2", "rwkv6", "rwkv6qwen2", "rwkv7",
	}
	seen := make(map[string]bool)
	for _, m := range golden.Archs(t) {
		if seen[m.Arch] || !slices.Contains(archs, m.Arch) || m.Mode == "mtp" {
			continue
		}
		seen[m.Arch] = true
		t.Run(m.Name, func(t *testing.T) {
			path, tokens := m.Save(t), m.Runs[0].Tokens
			tokens = slices.Concat(tokens, tokens) // longer than a page
			fresh := func() *engine.Engine {
				return open(t, path, 256, "f32", "f32", engine.Options{Threads: 1, NoCalibration: true})
			}
			one, two, three := fresh(), fresh(), fresh()
			request := engine.Request{Tokens: tokens, MaxTokens: 4, IgnoreEOG: true}
			_, first, err := one.Answer(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			var saved bytes.Buffer
			if _, err := one.SaveSlot(t.Context(), first.Slot, &saved); err != nil {
				t.Fatal(err)
			}
			if _, err := two.RestoreSlot(t.Context(), 0, "", bytes.NewReader(saved.Bytes())); err != nil {
				t.Fatal(err)
			}
			request.Tokens = slices.Concat(tokens, first.Tokens, tokens[:3])
			_, restored, err := two.Answer(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			_, want, err := three.Answer(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			if restored.Cached == 0 || !slices.Equal(restored.Tokens, want.Tokens) {
				t.Errorf("%v behind %d restored rows, want %v", restored.Tokens, restored.Cached, want.Tokens)
			}
		})
	}
	if len(seen) != len(archs) {
		t.Errorf("models of %d architectures, want %d", len(seen), len(archs))
	}
}
