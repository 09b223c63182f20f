package engine_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/gguf"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// TestAdapterErrors opens a small model with adapters that do not match it.
func TestAdapterErrors(t *testing.T) {
	base := llamaMerged().save(t, t.TempDir(), "base")
	const matrix = "blk.0.attn_qkv.weight"
	for _, c := range []struct {
		name   string
		change func(a *maker)
		want   string
	}{
		{"type", func(a *maker) { a.kv["general.type"] = "model" }, "general.type"},
		{"method", func(a *maker) { a.kv["adapter.type"] = "dora" }, "dora"},
		{"architecture", func(a *maker) { a.arch = "qwen2" }, "qwen2"},
		{"alpha", func(a *maker) { a.kv["adapter.lora.alpha"] = math.Inf(1) }, "alpha"},
		{"an absurd alpha", func(a *maker) { a.kv["adapter.lora.alpha"] = 1e30 }, "e+30"},
		{"alpha's kind", func(a *maker) { a.kv["adapter.lora.alpha"] = "2" }, "alpha"},
		{"switch", func(a *maker) { a.kv["adapter.alora.invocation_tokens"] = []int{1} }, "tokens"},
		{"empty", func(a *maker) { a.tensors = nil }, "lora_a"},
		{"half", func(a *maker) { a.tensors = a.tensors[:1] }, matrix},
		{"suffix", func(a *maker) { a.add("blk.0.attn_q.weight.lora_c", 4, 4) }, "lora_c"},
		{"no such tensor", func(a *maker) { a.add("blk.9.x.lora_a", 4, 4); a.add("blk.9.x.lora_b", 4, 4) }, "blk.9.x"},
		{"columns", func(a *maker) { a.tensors[0] = wide(a.tensors[0], 8, 4) }, matrix},
		{"rank", func(a *maker) { a.tensors[0] = wide(a.tensors[0], 32, 8) }, matrix},
		{"not a matrix", func(a *maker) { a.add("output_norm.weight.lora_a", 32, 2); a.add("output_norm.weight.lora_b", 2, 1) }, "output_norm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := adapterOf(llamaMerged(), matrix)
			c.change(a)
			path := a.save(t, t.TempDir(), "adapter")
			e, err := engine.Open(t.Context(), base, engine.Options{Context: 64, Threads: 1, LoRA: []engine.LoRA{{Path: path}}})
			if err == nil {
				t.Fatal(errors.Join(errors.New("no error"), e.Close()))
			}
			if !errors.Is(err, engine.ErrAdapter) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q in it", err, c.want)
			}
		})
	}
}

// TestAdapterNorms opens a model with an adapter that would replace norms. The log has
// a single warning, and tensor names in it cannot contain terminal control characters.
func TestAdapterNorms(t *testing.T) {
	base := llamaMerged().save(t, t.TempDir(), "base")
	a := adapterOf(llamaMerged(), "blk.0.attn_qkv.weight")
	for _, name := range []string{"\x1b[2J_norm.weight", "blk.0.attn_norm.weight", "blk.1.attn_norm.weight"} {
		a.add(name, 32)
	}
	var log bytes.Buffer
	openPath(t, base, engine.Options{
		Context: 64, Threads: 1, LoRA: []engine.LoRA{{Path: a.save(t, t.TempDir(), "adapter")}},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const want = `3 tensors of adapters are ignored, \"\\x1b[2J_norm.weight\" first`
	if said := log.String(); strings.Count(said, "norm") != strings.Count(want, "norm")+1 || !strings.Contains(said, want) {
		t.Errorf("%s, want %s", said, want)
	}
}

// wide gives a tensor another shape and data of zeros.
func wide(t gguf.Tensor, shape ...int) gguf.Tensor {
	t.Shape = shape
	t.Data = make([]byte, 4*shape[0]*shape[1])
	return t
}

// TestAdapterSum applies one adapter twice at half its scale. The result is the same as
// for the adapter applied once.
func TestAdapterSum(t *testing.T) {
	dir := t.TempDir()
	base := llamaMerged().save(t, dir, "base")
	path := adapterOf(llamaMerged(), "blk.0.attn_qkv.weight", "blk.1.ffn_up.weight").save(t, dir, "adapter")
	row := func(l ...engine.LoRA) []float32 {
		e := openPath(t, base, engine.Options{Context: 64, Threads: 1, LoRA: l, Want: layout.Want{K: kv.F32, V: kv.F32}})
		return logits(t, e, peerTokens(), []int{39}, false)
	}
	plain, whole := row(), row(engine.LoRA{Path: path})
	if most, _ := distance(plain, whole); most < 0.01 {
		t.Errorf("the adapter changes nothing: %g", most)
	}
	halves := row(engine.LoRA{Path: path, Scale: 0.5}, engine.LoRA{Path: path, Scale: 0.5})
	if most, _ := distance(whole, halves); most > peerBound {
		t.Errorf("two halves are %g away from the whole", most)
	}
}
