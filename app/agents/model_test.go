//go:build agents

package agents

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/testmodel"
)

// The dimensions of the small model.
const (
	embd    = 64
	headDim = 64
	heads   = 2
	ff      = 64
	trained = 131072
)

// smallModel writes a random llama of one layer with SmolLM2's vocabulary and a
// chat template of llama.cpp's source package. It reads 100,000 tokens in
// seconds, and its answers are replayed.
func smallModel(t testing.TB, template string) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(testmodel.LlamaCpp(t), "llama.cpp", "models", "templates", template+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(testmodel.SmolLM2(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list := []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: "small " + template},
		{Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.context_length", Value: uint32(trained)},
		{Key: "llama.embedding_length", Value: uint32(embd)},
		{Key: "llama.feed_forward_length", Value: uint32(ff)},
		{Key: "llama.attention.head_count", Value: uint32(heads)},
		{Key: "llama.attention.head_count_kv", Value: uint32(1)},
		{Key: "llama.attention.key_length", Value: uint32(headDim)},
		{Key: "llama.attention.value_length", Value: uint32(headDim)},
		{Key: "llama.rope.dimension_count", Value: uint32(headDim)},
		{Key: "llama.rope.freq_base", Value: float32(1e6)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
	}
	for k, v := range f.KV.All() {
		if strings.HasPrefix(k, "tokenizer.") && k != "tokenizer.chat_template" {
			list = append(list, gguf.KV{Key: k, Value: v})
		}
	}
	list = append(list, gguf.KV{Key: "tokenizer.chat_template", Value: string(source)})
	words, _ := f.KV.Strings("tokenizer.ggml.tokens")
	var out bytes.Buffer
	if err := gguf.Write(&out, list, tensors(len(words))); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "small.gguf")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tensors are the weights of the small model, from a seed.
func tensors(vocab int) []gguf.Tensor {
	r := rand.New(rand.NewPCG(1, 2))
	fill := func(name string, shape ...int) gguf.Tensor {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]byte, 0, 4*n)
		for range n {
			x := float32(r.NormFloat64() / 8)
			if len(shape) == 1 {
				x = 1
			}
			data, _ = binary.Append(data, binary.LittleEndian, x)
		}
		return gguf.Tensor{Name: name, Type: dtype.F32, Shape: shape, Data: data}
	}
	return []gguf.Tensor{
		fill("token_embd.weight", embd, vocab), fill("output_norm.weight", embd),
		fill("blk.0.attn_norm.weight", embd), fill("blk.0.ffn_norm.weight", embd),
		fill("blk.0.attn_q.weight", embd, heads*headDim), fill("blk.0.attn_k.weight", embd, headDim),
		fill("blk.0.attn_v.weight", embd, headDim), fill("blk.0.attn_output.weight", heads*headDim, embd),
		fill("blk.0.ffn_gate.weight", embd, ff), fill("blk.0.ffn_up.weight", embd, ff), fill("blk.0.ffn_down.weight", ff, embd),
	}
}
