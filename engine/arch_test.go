package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/gguf"
	"godwit/engine/graph"
	"godwit/engine/internal/golden"
	"godwit/engine/model"
)

// modelFile is a model file in parts that tests can change.
type modelFile struct {
	kv      []gguf.KV
	tensors []gguf.Tensor
}

func parseModel(t *testing.T, f *gguf.File) modelFile {
	t.Helper()
	var m modelFile
	for k, v := range f.KV.All() {
		m.kv = append(m.kv, gguf.KV{Key: k, Value: v})
	}
	m.tensors = append(m.tensors, f.Tensors...)
	return m
}

// open writes the parts to a file and opens it.
func (m modelFile) open(t *testing.T) (model.Model, error) {
	t.Helper()
	var b bytes.Buffer
	if err := gguf.Write(&b, m.kv, m.tensors); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return model.Open(f)
}

// allModels returns the small models and the models of peerModels, by name.
func allModels(t *testing.T) map[string]modelFile {
	t.Helper()
	out := make(map[string]modelFile)
	for name, make := range peerModels() {
		f, err := gguf.Parse(make().file(t))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = parseModel(t, f)
	}
	for _, m := range smallModels(t) {
		f, err := gguf.Open(m.small(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
		out[m.Name] = parseModel(t, f)
	}
	return out
}

// optional matches the tensors that a model can do without, unless its architecture
// declares them as required.
var optional = regexp.MustCompile(`\.bias$|^output\.weight$|^rope_f|^token_types|layer_output_scale|^blk\.\d+\.attn_[qk]_norm\.weight$|attn_v\.weight$|attn_qkv\.weight$|ssm_in\.weight$|\.scale$`)

// TestTensors removes each of the first 150 tensors of every model, one at a time, or
// changes its shape. In both cases the error names the tensor. A model may open without
// an optional tensor.
func TestTensors(t *testing.T) {
	for name, m := range allModels(t) {
		t.Run(name, func(t *testing.T) {
			arch := m.arch()
			whole, err := m.open(t)
			if err != nil {
				t.Fatal(err)
			}
			layers := whole.Config().Layers
			for i, x := range m.tensors[:min(len(m.tensors), 150)] {
				if layer, ok := layerOf(x.Name); ok && layer >= layers {
					continue // the layer only predicts further tokens, so its tensors are not bound
				}
				less := modelFile{m.kv, slices.Delete(slices.Clone(m.tensors), i, i+1)}
				_, err := less.open(t)
				if err == nil && (!optional.MatchString(x.Name) || model.Required(arch, x.Name)) {
					t.Errorf("without %s: no error", x.Name)
				}
				if err != nil && !errors.Is(err, model.ErrTensor) {
					t.Errorf("without %s: %v", x.Name, err)
				}
				if base, _, _ := strings.Cut(x.Name, ".weight"); err != nil && !strings.Contains(err.Error(), strings.TrimSuffix(strings.TrimSuffix(base, "qkv"), "_in")) && !substitute(x.Name) {
					t.Errorf("without %s: the error does not name it: %v", x.Name, err)
				}
				other := modelFile{m.kv, slices.Clone(m.tensors)}
				wider := &other.tensors[i]
				wider.Shape = slices.Clone(wider.Shape)
				wider.Shape[len(wider.Shape)-1]++
				wider.Data = append(slices.Clone(wider.Data), make([]byte, wider.Type.RowBytes(wider.Shape[0])*rowsOf(wider.Shape)-len(wider.Data))...)
				if _, err := other.open(t); x.Name != "token_types.weight" && (err == nil || !strings.Contains(err.Error(), x.Name)) {
					t.Errorf("%s as %v: %v", x.Name, wider.Shape, err)
				}
			}
		})
	}
}

// arch returns the name of the architecture.
func (m modelFile) arch() (name string) {
	for _, e := range m.kv {
		if v, ok := e.Value.(gguf.Value); ok && e.Key == "general.architecture" {
			name, _ = v.Text()
		}
	}
	return name
}

// layerOf returns the layer number in a tensor's name.
func layerOf(name string) (layer int, ok bool) {
	n, err := fmt.Sscanf(name, "blk.%d.", &layer)
	return layer, n == 1 && err == nil
}

// substitute reports whether model.Open looks for another tensor if this one is
// missing.
func substitute(name string) bool {
	return strings.Contains(name, "ffn_gate_up_exps") || strings.Contains(name, "ssm_in") || strings.Contains(name, "attn_q.weight")
}

func rowsOf(shape []int) int {
	n := 1
	for _, d := range shape[1:] {
		n *= d
	}
	return n
}

// TestHyperParameters sets single hyper-parameters of small models to unsupported
// values.
func TestHyperParameters(t *testing.T) {
	for _, c := range []struct {
		make func() *maker
		key  string // key to set; the error contains it or its first word, or is ErrTensor
		v    any
	}{
		{llamaMerged, "rope.scaling.type", "su"},
		{llamaMerged, "rope.dimension_count", 7},
		{llamaMerged, "rope.dimension_count", 4 * peerHead},
		{llamaMerged, "rope.freq_base", -1.0},
		{llamaMerged, "attention.head_count", 3},
		{llamaWide, "attention.head_count", []int{0, 0}},
		{llamaMerged, "attention.head_count_kv", 0},
		{llamaMerged, "attention.head_count_kv", 3},
		{llamaMerged, "attention.key_length", 0},
		{llamaMerged, "block_count", 0},
		{llamaMerged, "block_count", 1 << 20},
		{llamaMerged, "embedding_length", "wide"},
		{llamaMerged, "pooling_type", 4},
		{llamaMerged, "nextn_predict_layers", 2},
		{llamaMerged, rmsEps, "small"},
		{llamaMerged, rmsEps, -1e-5},
		{llamaMerged, rmsEps, 1e30},
		{llamaMerged, rmsEps, 1e300}, // too large for float32
		{llamaMerged, "block_count", 1},
		{llamaMerged, "rope.freq_base", 1.0},
		{llamaMerged, "rope.freq_base", 1e300},
		{llamaMerged, "rope.dimension_count", 0},
		{llamaMerged, "rope.scaling.factor", 1e-45},
		{llamaMerged, "rope.scaling.attn_factor", -1.0},
		{llamaMerged, "rope.scaling.yarn_beta_fast", -1.0},
		{llamaMerged, "rope.scaling.type", 2},
		{llamaMerged, "rope.freq_base", 1e30},
		{llamaMerged, "rope.scaling.factor", -2.0},
		{llamaMerged, "rope.scaling.factor", 1e30},
		{llamaMerged, "rope.scaling.attn_factor", 1e30},
		{llamaMerged, "rope.scaling.yarn_log_multiplier", -1.0},
		{llamaMerged, "attention.scale", -1.0},
		{llamaMerged, "attention.scale", 1e30},
		{llamaMerged, "attention.causal", "no"},
		{llamaMerged, "attention.head_count", []float32{2, 2}},
		{graniteMoE, "expert_gating_func", 4},
		{graniteMoE, "expert_used_count", 5},
		{graniteMoE, "expert_used_count", 0},
		{graniteMoE, "expert_count", 3},
		{graniteMoE, "expert_group_count", 4},
		{graniteMoE, "expert_weights_scale", -1.0},
		{graniteMoE, "expert_weights_scale", 1e30},
		{graniteMoE, "logit_scale", "loud"},
		{graniteMoE, "logit_scale", -8.0},
		{graniteMoE, "logit_scale", 1e-30},
		{graniteMoE, "embedding_scale", 1e30},
		{graniteMoE, "residual_scale", -1.0},
		{lfm2MoE, "attention.head_count_kv", []int{0, 1}},
		{lfm2MoE, "shortconv.l_cache", 0},
		{graniteHybrid, "ssm.time_step_rank", 5},
		{graniteHybrid, "ssm.inner_size", 1 << 18},
		{qwen3NextLegacy, "full_attention_interval", 0},
		{qwen3NextLegacy, "rope.dimension_count", 1 << 10},
		{qwen3NextLegacy, "attention.causal", false},
		{deepSeekLite, "attention.kv_lora_rank", 0},
		{deepSeekLite, "attention.key_length_mla", 8},
		{deepSeekLite, "attention.temperature_length", 0},
	} {
		m := c.make()
		if _, err := m.parts(t).open(t); err != nil {
			t.Fatal(err)
		}
		m.kv[c.key] = c.v
		_, err := m.parts(t).open(t)
		if err == nil {
			t.Errorf("%s: %s = %v: no error", m.arch, c.key, c.v)
			continue
		}
		part := c.key[:strings.IndexAny(c.key+".", "._")]
		if !strings.Contains(err.Error(), c.key) && !strings.Contains(err.Error(), part) && !errors.Is(err, model.ErrTensor) {
			t.Errorf("%s: %s = %v: %v", m.arch, c.key, c.v, err)
		}
	}
}

// llamaWide returns a Llama whose metadata gives the size of its heads.
func llamaWide() *maker {
	m := llamaLike("llama", 2, nil)
	m.kv["attention.key_length"], m.kv["attention.value_length"] = peerHead, peerHead
	return m
}

func (m *maker) parts(t *testing.T) modelFile {
	t.Helper()
	f, err := gguf.Parse(m.file(t))
	if err != nil {
		t.Fatal(err)
	}
	return parseModel(t, f)
}

// TestArchs checks the error about an unknown architecture.
func TestArchs(t *testing.T) {
	m := newMaker("perceptron", 1, nil)
	_, err := m.parts(t).open(t)
	if !errors.Is(err, model.ErrArch) {
		t.Fatal(err)
	}
	if _, err := (modelFile{}).open(t); !errors.Is(err, model.ErrArch) || !strings.Contains(err.Error(), "general.architecture") {
		t.Errorf("without a name: %v", err)
	}
	for _, want := range []string{"perceptron", "llama", "qwen35moe", "gpt-oss", "nomic-bert"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

// TestHostile sets every hyper-parameter of every architecture to absurd values, one
// at a time. Opening the model and recording its forward pass gives an error or a
// plan, without a panic and without much memory.
func TestHostile(t *testing.T) {
	values := []any{
		uint64(0), uint64(1), uint64(3), uint64(math.MaxInt32), uint64(1 << 62), int32(-1), float32(math.NaN()), float32(-1), float32(1e30),
		"x", true,
		[]uint32{1},
		[]float32{},
		[]bool{true, false},
	}
	for name, m := range allModels(t) {
		t.Run(name, func(t *testing.T) {
			for i, e := range m.kv {
				if strings.HasPrefix(e.Key, "general.") || strings.HasPrefix(e.Key, "tokenizer.") {
					continue
				}
				for _, v := range values {
					other := modelFile{slices.Clone(m.kv), m.tensors}
					other.kv[i].Value = v
					o, err := other.open(t)
					if err != nil {
						continue
					}
					_, number := v.(float32)
					if was, ok := e.Value.(gguf.Value); ok && number && was.Kind == gguf.Float32 && !was.IsArray {
						t.Errorf("%s = %v: no error", e.Key, v)
					}
					for _, in := range []model.Inputs{{Context: 64}, {Context: 64, Pool: true}} {
						b := graph.NewBuilder()
						if p, err := b.Finish(o.Forward(b, in)); err == nil && len(p.Nodes) > 20000 {
							t.Errorf("%s = %v: %d nodes", e.Key, v, len(p.Nodes))
						}
					}
				}
			}
		})
	}
}

// TestWindowPattern checks that the list of windowed layers may consist of booleans
// or of integers.
func TestWindowPattern(t *testing.T) {
	for _, pattern := range []any{[]bool{true, false, false, true}, []int{1, 0, 0, 1}} {
		m := olmo3()
		m.kv["attention.sliding_window_pattern"] = pattern
		o, err := m.parts(t).open(t)
		if err != nil {
			t.Fatalf("%v: %v", pattern, err)
		}
		b := graph.NewBuilder()
		p, err := b.Finish(o.Forward(b, model.Inputs{Context: 64}))
		if err != nil {
			t.Fatal(err)
		}
		var windows []int
		for _, n := range p.Nodes {
			if a, ok := n.Op.(graph.Attend); ok {
				windows = append(windows, a.Window)
			}
		}
		if want := []int{12, 0, 0, 12}; !slices.Equal(windows, want) {
			t.Errorf("%v: windows of %v, want %v", pattern, windows, want)
		}
	}
}

// TestVocabularyNamed opens a model whose vocabulary is damaged. The error names the file.
func TestVocabularyNamed(t *testing.T) {
	m := tiny(t, "llama-hd64")
	for i := range m.kv {
		if m.kv[i].Key == "tokenizer.ggml.model" {
			m.kv[i].Value = "no such kind"
		}
	}
	path := m.write(t)
	opened, err := engine.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if _, err := opened.Tokenizer(); err == nil || !strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("read: %v", err)
	}
}

// TestTemplateNoText opens a model whose template is not a string.
func TestTemplateNoText(t *testing.T) {
	f, err := gguf.Open(golden.Small(t, "llama-hd64"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m := parseModel(t, f)
	m.kv = append(m.kv, gguf.KV{Key: "tokenizer.chat_template", Value: uint32(7)})
	path := filepath.Join(t.TempDir(), "m.gguf")
	var b bytes.Buffer
	if err := errors.Join(gguf.Write(&b, m.kv, m.tensors), os.WriteFile(path, b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	opened, err := engine.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	c := &engine.Chat{Messages: []byte(`[{"role":"user","content":"a"}]`)}
	if _, err := opened.Render(t.Context(), c); !errors.Is(err, model.ErrParam) || !strings.Contains(err.Error(), path+": chat template: ") || !strings.Contains(err.Error(), "tokenizer.chat_template") {
		t.Errorf("rendered: %v", err)
	}
}
