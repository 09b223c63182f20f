package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"godwit/engine"
	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/requant"
)

// hollow writes a model with one block of the given width whose weights are a hole
// in a sparse file.
func hollow(t *testing.T, embd int) string {
	t.Helper()
	kv := []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.context_length", Value: uint32(1 << 20)},
		{Key: "llama.embedding_length", Value: uint32(embd)},
		{Key: "llama.feed_forward_length", Value: uint32(1)},
		{Key: "llama.attention.head_count", Value: uint32(1)},
		{Key: "llama.attention.key_length", Value: uint32(2)},
		{Key: "llama.attention.value_length", Value: uint32(2)},
		{Key: "llama.rope.dimension_count", Value: uint32(2)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
	}
	var tensors []gguf.Tensor
	size := int64(1 << 16)
	add := func(name string, shape ...int) {
		tensors = append(tensors, gguf.Tensor{Name: name, Type: dtype.F32, Shape: shape})
		n := int64(4)
		for _, d := range shape {
			n *= int64(d)
		}
		size += n + 32
	}
	add("token_embd.weight", embd, 2)
	add("output_norm.weight", embd)
	add("blk.0.attn_norm.weight", embd)
	add("blk.0.ffn_norm.weight", embd)
	for _, name := range []string{"q", "k", "v"} {
		add("blk.0.attn_"+name+".weight", embd, 2)
	}
	add("blk.0.attn_output.weight", 2, embd)
	add("blk.0.ffn_gate.weight", embd, 1)
	add("blk.0.ffn_up.weight", embd, 1)
	add("blk.0.ffn_down.weight", 1, embd)
	path := filepath.Join(t.TempDir(), "hollow.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = gguf.NewWriter(f, kv, tensors)
	if err := errors.Join(err, f.Truncate(size), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// A file that takes no disk space can request more memory than there is. This gives
// an error and does not end the process.
func TestHollow(t *testing.T) {
	for embd, want := range map[int]error{1 << 10: nil, 1 << 21: backend.ErrMemory, 1 << 23: graph.ErrShape} {
		batch := 64
		if want != nil {
			batch = 1 << 16
		}
		e, err := engine.Open(t.Context(), hollow(t, embd), engine.Options{Threads: 1, UBatch: batch, Context: 1 << 17, Parallel: 1})
		if !errors.Is(err, want) {
			t.Errorf("%d values: %v, want %v", embd, err, want)
		}
		if err == nil {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Quantising a huge sparse file loads one row at a time into memory.
func TestHollowQuantized(t *testing.T) {
	path := hollow(t, 1<<23)
	_, err := requant.Quantize(t.Context(), path, filepath.Join(t.TempDir(), "out.gguf"), "q8_0", nil)
	if !errors.Is(err, requant.ErrQuantize) {
		t.Errorf("%v, want %v", err, requant.ErrQuantize)
	}
}
