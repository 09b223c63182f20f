package engine_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
	"godwit/engine/internal/golden"
	"godwit/engine/llm"
	"godwit/engine/model"
)

// with returns the model with an additional F32 tensor.
func (m modelFile) with(name string, values []float32, shape ...int) modelFile {
	data := make([]byte, 0, 4*len(values))
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	m.tensors = append(slices.Clone(m.tensors), gguf.Tensor{Name: name, Type: dtype.F32, Shape: shape, Data: data})
	return m
}

// without returns the model without a key.
func (m modelFile) without(key string) modelFile {
	m.kv = slices.DeleteFunc(slices.Clone(m.kv), func(e gguf.KV) bool { return e.Key == key })
	return m
}

// write writes the model to a file.
func (m modelFile) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	var b bytes.Buffer
	if err := errors.Join(gguf.Write(&b, m.kv, m.tensors), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// tiny returns the parts of a small model.
func tiny(t *testing.T, name string) modelFile {
	t.Helper()
	data, err := os.ReadFile(golden.Small(t, name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return parseModel(t, f)
}

// TestUnread opens every model unchanged, and with tensors that no forward pass reads.
// The error names these tensors, unless they are known to be unread.
func TestUnread(t *testing.T) {
	models := allModels(t)
	for name, m := range models {
		if _, err := m.open(t); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		one := make([]float32, 1)
		odd := m.with("blk.0.attn_odd.bias", one, 1).with("odd.scale", one, 1)
		if _, err := odd.open(t); !errors.Is(err, model.ErrTensor) || !strings.Contains(err.Error(), "blk.0.attn_odd.bias") || !strings.Contains(err.Error(), "odd.scale") {
			t.Errorf("%s with two odd tensors: %v", name, err)
		}
		for _, known := range []string{"v.blk.0.attn_q.weight", "mm.0.weight", "blk.0.attn_q.input_scale", "blk.0.attn_rot_embd.weight", "position_ids"} {
			if _, err := m.with(known, one, 1).open(t); err != nil {
				t.Errorf("%s with %s: %v", name, known, err)
			}
		}
	}
	many := models["llama-hd64"]
	for i := range 20 {
		many = many.with(fmt.Sprintf("odd.%d", i), make([]float32, 1), 1)
	}
	if _, err := many.open(t); err == nil || !strings.Contains(err.Error(), "and 12 more") {
		t.Errorf("20 odd tensors: %v", err)
	}
	for _, c := range []struct{ model, key, unread string }{
		{"deepseek2-mla", "deepseek2.expert_shared_count", "shexp"},
		{"glm4moe", "glm4moe.expert_shared_count", "shexp"},
		{"glm4moe", "glm4moe.nextn_predict_layers", "nextn"},
		{"gemma4-moe", "gemma4.expert_count", "exps"},
		{"gemma4-e", "gemma4.embedding_length_per_layer_input", "per_layer"},
	} {
		m, ok := models[c.model]
		if !ok {
			t.Errorf("there is no model %s", c.model)
			continue
		}
		if _, err := m.without(c.key).open(t); err == nil {
			t.Errorf("%s without %s opens, and %s is not read", c.model, c.key, c.unread)
		}
	}
}

// TestUnreadListed opens models with tensors that their architecture lists as unread.
func TestUnreadListed(t *testing.T) {
	models := allModels(t)
	for _, c := range []struct{ model, tensor string }{
		{"deepseek2-mla", "blk.0.attn_kv_b.weight"},
		{"qwen3-hd128", "cls.output.weight"},
	} {
		m, ok := models[c.model]
		if !ok {
			t.Errorf("there is no model %s", c.model)
			continue
		}
		if _, err := m.with(c.tensor, make([]float32, 1), 1).open(t); err != nil {
			t.Errorf("%s with %s: %v", c.model, c.tensor, err)
		}
	}
	// the last layer of this model reads the cache of an earlier layer
	shared := models["gemma4-e"]
	last := fmt.Sprintf("blk.%d.attn_k.weight", shared.layers()-1)
	if shared.has(last) {
		t.Fatalf("gemma4-e has %s", last)
	}
	if _, err := shared.with(last, make([]float32, 1), 1).open(t); err != nil {
		t.Error(err)
	}
}

func (m modelFile) has(name string) bool {
	return slices.ContainsFunc(m.tensors, func(x gguf.Tensor) bool { return x.Name == name })
}

func (m modelFile) layers() (n int) {
	for m.has(fmt.Sprintf("blk.%d.attn_norm.weight", n)) {
		n++
	}
	return n
}

// TestOutputBias adds an output bias to every decoder without one. The logits grow by
// the bias.
func TestOutputBias(t *testing.T) {
	for name, m := range allModels(t) {
		if m.has("output.bias") || m.has("token_embd_norm.bias") || strings.HasSuffix(name, "-embed") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			plain := m.logits(t)
			bias := make([]float32, len(plain))
			for i := range bias {
				bias[i] = 0.25 + float32(i%7)/8
			}
			biased := m.with("output.bias", bias, len(bias)).logits(t)
			soft := strings.HasPrefix(name, "gemma") // the soft cap applies after the bias
			for i := range plain {
				if d := biased[i] - plain[i] - bias[i]*m.logitScale(name); !soft && (d > 1e-4 || d < -1e-4) || biased[i] == plain[i] {
					t.Fatalf("logit %d: %g without a bias, %g with %g", i, plain[i], biased[i], bias[i])
				}
			}
		})
	}
}

// logitScale returns the factor that multiplies the logits and the output bias.
func (m modelFile) logitScale(string) float32 {
	for _, e := range m.kv {
		v, ok := e.Value.(gguf.Value)
		if !ok || !strings.HasSuffix(e.Key, ".logit_scale") {
			continue
		}
		s, _ := v.Float()
		if strings.HasPrefix(e.Key, "granite") && s != 0 {
			return 1 / float32(s)
		}
		if s != 0 {
			return float32(s)
		}
	}
	return 1
}

// logits returns the logits after three tokens.
func (m modelFile) logits(t *testing.T) []float32 {
	t.Helper()
	e, err := engine.Open(t.Context(), m.write(t), engine.Options{Threads: 1, Context: 64, Parallel: 1, UBatch: 8})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	out, err := e.Logits(t.Context(), []llm.Token{1, 5, 9}, []int{2}, false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNoWeightType gives matrices and vectors data types that are not weight types.
func TestNoWeightType(t *testing.T) {
	m := tiny(t, "llama-hd64")
	for _, name := range []string{"token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight", "output_norm.weight"} {
		for _, typ := range []dtype.Type{dtype.I8, dtype.I16, dtype.I32, dtype.I64, dtype.F64} {
			other := modelFile{m.kv, slices.Clone(m.tensors)}
			for i := range other.tensors {
				if x := &other.tensors[i]; x.Name == name {
					x.Type, x.Data = typ, make([]byte, typ.RowBytes(x.Shape[0])*rowsOf(x.Shape))
				}
			}
			_, err := other.open(t)
			if want := fmt.Sprintf("%s: type %v is not a weight type", name, typ); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s as %v: %v", name, typ, err)
			}
		}
	}
}
