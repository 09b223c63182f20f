package requant

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
)

// mix is a way to quantise a model. It has one type for most matrices, and better types
// for the sensitive ones.
type mix struct {
	name   string
	number int        // general.file_type; -1 if the mix has no standard number
	most   dtype.Type // type of most matrices
	output dtype.Type // type of the output matrix, and of a tied embedding
	medium bool       // more bits for some value and feed-forward output matrices
}

// mixes are the types that Quantize offers. They match llama.cpp's, so a file has the size that
// people expect from the name.
var mixes = []mix{
	{"Q8_0", 7, dtype.Q8_0, dtype.Q8_0, false},
	{"Q6_K", 18, dtype.Q6_K, dtype.Q6_K, false},
	{"Q4_K_M", 15, dtype.Q4_K, dtype.Q6_K, true},
	{"Q4_0", 2, dtype.Q4_0, dtype.Q6_K, false},
	{"TQ4_1S", -1, dtype.TQ4_1S, dtype.Q6_K, false},
	{"TQ3_1S", -1, dtype.TQ3_1S, dtype.Q6_K, false},
}

// Types lists the names that Quantize accepts, best quality first.
func Types() []string {
	var names []string
	for _, m := range mixes {
		names = append(names, m.name)
	}
	return names
}

// kept contains parts of tensor names. Matrices with such names never change, because they are
// small or are not multiplied.
var kept = []string{
	"_norm.weight", "ffn_gate_inp.weight", "per_layer_model_proj", "ssm_conv1d", "shortconv.conv",
	"position_embd", "token_types",
}

// quantises reports whether Quantize may change a tensor's type.
func quantises(t *gguf.Tensor) bool {
	if len(t.Shape) < 2 || t.Rows() < 2 || !strings.HasSuffix(t.Name, ".weight") {
		return false
	}
	return !slices.ContainsFunc(kept, func(part string) bool { return strings.Contains(t.Name, part) })
}

// chooser picks the types of one model's tensors. Tensors must come in the order of
// byLayer.
type chooser struct {
	mix
	tied    bool // the embedding is the output matrix
	experts int
	layers  int
	values  int // number of value matrices
	value   int // number of value matrices so far
}

func newChooser(m mix, f *gguf.File) *chooser {
	c := &chooser{mix: m}
	_, own := f.Tensor("output.weight")
	c.tied = !own
	n, _ := f.KV.Uint(f.Arch() + ".expert_count")
	c.experts = int(min(n, 1<<16))
	layers, _ := f.KV.Uint(f.Arch() + ".block_count")
	c.layers = int(min(layers, 1<<16))
	for i := range f.Tensors {
		switch tensorKind(f.Tensors[i].Name) {
		case "attn_v", "attn_qkv", "attn_kv_b":
			c.values++
		}
	}
	return c
}

// tensorKind returns a tensor's name without its layer and suffix.
func tensorKind(name string) string {
	name = strings.TrimSuffix(name, ".weight")
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		_, name, _ = strings.Cut(rest, ".")
	}
	return name
}

// layerOf returns the layer in a tensor's name, or -1.
func layerOf(name string) int {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return -1
	}
	return n
}

// byLayer orders tensors by layer. Tensors without a layer come first.
func byLayer(a, b *gguf.Tensor) int { return cmp.Compare(layerOf(a.Name), layerOf(b.Name)) }

// more reports whether layer i of n gets more bits. The first and last eighth of
// the layers do, and every third layer in between.
func more(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// pick returns the new type of a tensor. Tensors must come in the order of
// byLayer.
func (c *chooser) pick(t *gguf.Tensor) dtype.Type {
	ty := c.most
	kind := tensorKind(t.Name)
	switch kind {
	case "output":
		ty = c.output
	case "token_embd", "per_layer_token_embd":
		if c.tied {
			ty = c.output
		}
	case "attn_v", "attn_kv_b":
		if c.medium && more(c.value, c.values) {
			ty = dtype.Q6_K
		}
		if c.experts == 8 {
			ty = dtype.Q8_0
		}
		c.value++
	case "attn_k":
		if c.experts == 8 {
			ty = dtype.Q8_0
		}
	case "attn_qkv":
		if c.medium {
			ty = dtype.Q5_K
		}
	case "attn_output":
		if c.medium && c.experts == 8 {
			ty = dtype.Q5_K
		}
	}
	if strings.HasPrefix(kind, "ffn_down") && c.medium && more(layerOf(t.Name), c.layers) {
		ty = dtype.Q6_K
	}
	return fallback(ty, t.Shape[0])
}

// fallback returns a type whose blocks divide rows of n values.
func fallback(t dtype.Type, n int) dtype.Type {
	if n%t.Elems() == 0 {
		return t
	}
	switch t {
	case dtype.Q4_K:
		t = dtype.Q5_0
	case dtype.Q5_K:
		t = dtype.Q5_1
	case dtype.Q6_K:
		t = dtype.Q8_0
	}
	if n%t.Elems() != 0 {
		return dtype.F16
	}
	return t
}
