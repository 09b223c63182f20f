package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"godwit/engine"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
)

// largeFile writes a model with eight layers of zero matrices, all of one type.
func largeFile(b *testing.B, typ dtype.Type) string {
	b.Helper()
	const embd, hidden, vocab, layers = 1024, 2816, 8192, 8
	kv := []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "llama.block_count", Value: uint32(layers)},
		{Key: "llama.context_length", Value: uint32(2048)},
		{Key: "llama.embedding_length", Value: uint32(embd)},
		{Key: "llama.feed_forward_length", Value: uint32(hidden)},
		{Key: "llama.attention.head_count", Value: uint32(16)},
		{Key: "llama.rope.dimension_count", Value: uint32(64)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
	}
	var tensors []gguf.Tensor
	add := func(typ dtype.Type, name string, shape ...int) {
		tensors = append(tensors, gguf.Tensor{Name: name, Type: typ, Shape: shape, Data: make([]byte, typ.RowBytes(shape[0])*rowsOf(shape))})
	}
	add(typ, "token_embd.weight", embd, vocab)
	add(dtype.F32, "output_norm.weight", embd)
	for i := range layers {
		name := func(s string) string { return fmt.Sprintf("blk.%d.%s.weight", i, s) }
		add(dtype.F32, name("attn_norm"), embd)
		add(dtype.F32, name("ffn_norm"), embd)
		for _, s := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
			add(typ, name(s), embd, embd)
		}
		add(typ, name("ffn_gate"), embd, hidden)
		add(typ, name("ffn_up"), embd, hidden)
		add(typ, name("ffn_down"), hidden, embd)
	}
	path := filepath.Join(b.TempDir(), "large.gguf")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(gguf.Write(f, kv, tensors), f.Close()); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkLoad opens and closes a model that is in the page cache. min-ms is the
// shortest time of an open. docs/performance.md describes how to compare two versions.
func BenchmarkLoad(b *testing.B) {
	for _, typ := range []dtype.Type{dtype.F32, dtype.F16, dtype.BF16, dtype.Q4_0, dtype.Q4_1, dtype.Q5_0, dtype.Q8_0, dtype.Q4_K, dtype.Q6_K, dtype.IQ4_NL, dtype.MXFP4} {
		b.Run(typ.String(), func(b *testing.B) {
			path := largeFile(b, typ)
			least := time.Hour
			for b.Loop() {
				start := time.Now()
				e, err := engine.Open(b.Context(), path, engine.Options{Context: 256, Parallel: 1, Threads: 1})
				least = min(least, time.Since(start))
				if err != nil {
					b.Fatal(err)
				}
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(least)/1e6, "min-ms")
		})
	}
}
