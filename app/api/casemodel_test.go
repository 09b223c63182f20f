package api

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"godwit/app/hub"
	"godwit/engine"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

// reciter is a server of a model whose answers are texts: every byte is a token, and
// so is every control token of its family.
type reciter struct {
	*live
	controls []string

	mu     sync.Mutex
	text   string // the next answer
	prompt string // the last prompt
}

// lastControl ends an answer.
const lastControl = "<eos>"

// recite runs a server with a chat template: one of llama.cpp's templates, or a built-in.
// controls are the texts of the control tokens.
func recite(t *testing.T, template string, controls ...string) *reciter {
	t.Helper()
	r := &reciter{controls: append(controls, lastControl)}
	dir := t.TempDir()
	path := filepath.Join(dir, "reciter.gguf")
	if err := os.WriteFile(path, byteModel(t, r.controls), 0o600); err != nil {
		t.Fatal(err)
	}
	lib, err := hub.Open(hub.Options{Dir: dir, URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := lib.Find(path)
	if err != nil {
		t.Fatal(err)
	}
	source, builtin := engine.BuiltinTemplate(template)
	if !builtin {
		text, err := os.ReadFile(filepath.Join(testmodel.LlamaCpp(t), "llama.cpp", "models", "templates", template+".jinja"))
		if err != nil {
			t.Fatal(err)
		}
		source = string(text)
	}
	r.live = start(t, func(o *setup) {
		o.Library, o.Model = lib, &m
		o.Engine = engine.Options{Context: 1 << 16, Cells: 1 << 16, Parallel: 1, UBatch: 512, ChatTemplates: []engine.ChatTemplate{{Source: source}}}
		o.Engine.Replay = func(_ context.Context, prompt []llm.Token) []llm.Token {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.prompt = r.decode(prompt)
			return r.encode(r.text)
		}
	})
	return r
}

// says sets the text of the next answers.
func (v *reciter) says(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.text = text
}

// read returns the prompt of the last answer.
func (v *reciter) read() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.prompt
}

func (v *reciter) encode(text string) (out []llm.Token) {
	for text != "" {
		id, n := llm.Token(text[0]), 1
		for i, c := range v.controls {
			if strings.HasPrefix(text, c) && len(c) > n {
				id, n = llm.Token(256+i), len(c)
			}
		}
		out, text = append(out, id), text[n:]
	}
	return out
}

func (v *reciter) decode(tokens []llm.Token) string {
	var b strings.Builder
	for _, id := range tokens {
		if id < 256 {
			b.WriteByte(byte(id))
		} else {
			b.WriteString(v.controls[id-256])
		}
	}
	return b.String()
}

// byteWords returns the tokens of a vocabulary of bytes, in the alphabet of GPT-2.
func byteWords() (words []string) {
	next := rune(256)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			words = append(words, string(b))
		} else {
			words = append(words, string(next))
			next++
		}
	}
	return words
}

// byteModel writes a llama of one small layer with a vocabulary of bytes.
func byteModel(t testing.TB, controls []string) []byte {
	t.Helper()
	const embd, ff = 64, 32
	words := byteWords()
	types := make([]int32, len(words))
	for i := range types {
		types[i] = 1
	}
	for _, c := range controls {
		words, types = append(words, c), append(types, 3)
	}
	var tensors []gguf.Tensor
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		var data []byte
		for i := range n {
			x := float32(1)
			if len(shape) > 1 {
				x = float32(i%7-3) / 16
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		tensors = append(tensors, gguf.Tensor{Name: name + ".weight", Type: dtype.F32, Shape: shape, Data: data})
	}
	add("token_embd", embd, len(words))
	add("output_norm", embd)
	add("blk.0.attn_norm", embd)
	add("blk.0.ffn_norm", embd)
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
		add("blk.0."+name, embd, embd)
	}
	add("blk.0.ffn_gate", embd, ff)
	add("blk.0.ffn_up", embd, ff)
	add("blk.0.ffn_down", ff, embd)
	var out bytes.Buffer
	err := gguf.Write(&out, []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.name", Value: "reciter"},
		{Key: "llama.context_length", Value: uint32(1 << 16)},
		{Key: "llama.embedding_length", Value: uint32(embd)},
		{Key: "llama.block_count", Value: uint32(1)},
		{Key: "llama.feed_forward_length", Value: uint32(ff)},
		{Key: "llama.attention.head_count", Value: uint32(1)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"},
		{Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: words},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: []string{}},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(len(words) - 1)},
	}, tensors)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
