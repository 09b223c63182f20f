package hub

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
)

// TestAbilities tests what is read from a file about its model: what its template and
// its tokens allow, not what its name says, and the sampling that it recommends.
func TestAbilities(t *testing.T) {
	type found struct {
		Tools, Thinking, Infill, Chats bool
		Base                           string
		Sampling                       map[string]float64
	}
	kv := func(pairs ...any) (list []gguf.KV) {
		for i := 0; i < len(pairs); i += 2 {
			list = append(list, gguf.KV{Key: pairs[i].(string), Value: pairs[i+1]})
		}
		return list
	}
	const template = "tokenizer.chat_template"
	for name, x := range map[string]struct {
		kv   []gguf.KV
		want found
	}{
		"vision-tools-thinking": {kv("general.basename", "Coder-Thinking"), found{Base: "coder-thinking"}},
		"tools":                 {kv(template, "{% if tools %}{{ tools | tojson }}{% endif %}"), found{Tools: true, Chats: true, Base: "tiny 1"}},
		"switch":                {kv(template, "{% if enable_thinking is false %}{% endif %}"), found{Thinking: true, Chats: true, Base: "tiny 1"}},
		"think tags":            {kv(template, "{{ m.content.split('</think>')[-1] }}"), found{Thinking: true, Chats: true, Base: "tiny 1"}},
		"gap by id":             {kv("tokenizer.ggml.fim_pre_token_id", uint32(1)), found{Infill: true, Base: "tiny 1"}},
		"gap by token":          {kv("tokenizer.ggml.tokens", []string{"a", "<|fim_prefix|>"}), found{Infill: true, Base: "tiny 1"}},
		"gap within a token":    {kv("tokenizer.ggml.tokens", []string{"a", "x<|fim_prefix|>"}), found{Base: "tiny 1"}},
		"sampling": {
			kv("general.sampling.temp", float32(0.95), "general.sampling.top_k", int32(64), "general.sampling.penalty_repeat", float32(1.05), "general.sampling.mirostat", int32(1), "general.sampling.top_p", "high"),
			found{Base: "tiny 1", Sampling: map[string]float64{"temperature": 0.95, "top_k": 64, "repeat_penalty": 1.05}},
		},
	} {
		path := filepath.Join(t.TempDir(), name+".gguf")
		chats := false
		for _, p := range x.kv {
			chats = chats || p.Key == template
		}
		if !chats {
			x.kv = append(x.kv, gguf.KV{Key: template, Value: " "})
		}
		if err := os.WriteFile(path, bareModel(t, x.kv), 0o600); err != nil {
			t.Fatal(err)
		}
		i, err := Describe(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := (found{i.Tools, i.Thinking, i.Infill, i.Chats, i.Base, i.Sampling}); !cmp.Equal(got, x.want) {
			t.Errorf("%s: %s", name, cmp.Diff(x.want, got))
		}
	}
}

// bareModel is a GGUF file with a name and these values.
func bareModel(t *testing.T, kv []gguf.KV) []byte {
	t.Helper()
	var out bytes.Buffer
	kv = append([]gguf.KV{{Key: "general.architecture", Value: "llama"}, {Key: "general.name", Value: "Tiny 1"}}, kv...)
	if err := gguf.Write(&out, kv, []gguf.Tensor{{Name: "t", Type: dtype.I8, Shape: []int{8}, Data: make([]byte, 8)}}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
