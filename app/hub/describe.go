package hub

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"godwit/engine/dtype"
	"godwit/engine/gguf"
)

// Info holds what a model file contains about the model.
type Info struct {
	Arch       string `json:"arch"`
	Title      string `json:"title,omitempty"` // general.name
	Quant      string `json:"quant"`           // such as Q4_K_M
	Parameters int64  `json:"parameters"`      // number of weights
	Context    int    `json:"context"`         // context length in training, in tokens; 0 if unknown
	Layers     int    `json:"layers"`
	Embedding  int    `json:"embedding"`
	Heads      int    `json:"heads"`
	KVHeads    int    `json:"kv_heads"`
	HeadDim    int    `json:"head_dim"` // head dimension of K; 0 if unknown
	Vocab      int    `json:"vocab"`
	Template   string `json:"template,omitempty"` // chat template; omitted by List
	Licence    string `json:"licence,omitempty"`
	Base       string `json:"-"` // general.basename, or general.name if that is missing, in lower case
	Chats      bool   `json:"-"` // whether there is a chat template
	Tools      bool   `json:"-"` // whether the chat template supports tools
	Thinking   bool   `json:"-"` // whether the chat template lets the model think before it answers
	Infill     bool   `json:"-"` // whether the vocabulary has tokens to fill a gap in a text
	NonCausal  bool   `json:"-"` // whether attention is not causal, so that the model cannot generate text
	Vision     bool   `json:"-"` // whether a projector beside the model lets it read pictures

	Sampling map[string]float64 `json:"-"` // values of general.sampling, by Godwit's names of the parameters
}

// Describe reads the head of a model file.
func Describe(path string) (Info, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return Info{}, err
	}
	return describe(f), errors.Join(f.Close())
}

// mostLayers limits how much of a per-layer list is read.
const mostLayers = 4096

func describe(f *gguf.File) Info {
	arch := f.Arch()
	n := func(key string) int {
		key = arch + "." + key
		if v, ok := f.KV.Uint(key); ok {
			return int(min(v, math.MaxInt32))
		}
		a, _ := f.KV.Value(key)
		list, _ := a.First(mostLayers).Ints() // if there is a value per layer, the largest is used
		if len(list) == 0 {
			return 0
		}
		return int(min(max(slices.Max(list), 0), math.MaxInt32))
	}
	i := Info{
		Arch: gguf.Line(arch), Quant: quantisation(f), Context: n("context_length"), Layers: n("block_count"),
		Embedding: n("embedding_length"), Heads: n("attention.head_count"), KVHeads: n("attention.head_count_kv"),
		HeadDim: n("attention.key_length"), Vocab: n("vocab_size"),
	}
	i.Title, i.Licence = f.KV.Line("general.name"), f.KV.Line("general.license")
	i.Template, _ = f.KV.String("tokenizer.chat_template")
	causal, said := f.KV.Bool(arch + ".attention.causal")
	i.NonCausal = said && !causal
	i.Base = strings.ToLower(cmp.Or(f.KV.Line("general.basename"), i.Title))
	i.Chats = strings.TrimSpace(i.Template) != ""
	i.Tools, i.Thinking, i.Infill = strings.Contains(i.Template, "tools"), thinks(i.Template), fills(f)
	i.Sampling = samplingIn(f)
	if i.HeadDim == 0 && i.Heads > 0 {
		i.HeadDim = i.Embedding / i.Heads
	}
	if i.KVHeads == 0 {
		i.KVHeads = i.Heads
	}
	if v, ok := f.KV.Value("tokenizer.ggml.tokens"); ok {
		i.Vocab = v.Len()
	}
	for t := range f.Tensors {
		i.Parameters += int64(f.Tensors[t].Rows()) * int64(f.Tensors[t].Shape[0])
	}
	return i
}

// samplingKeys maps the keys below general.sampling to Godwit's names. Source:
// converter and llama_model_meta_key_str in llama.cpp's llama.h.
var samplingKeys = map[string]string{
	"temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
	"penalty_repeat": "repeat_penalty", "penalty_last_n": "repeat_last_n",
	"xtc_probability": "xtc_probability", "xtc_threshold": "xtc_threshold",
}

// samplingIn returns the sampling parameters that a file recommends.
func samplingIn(f *gguf.File) map[string]float64 {
	var out map[string]float64
	for key, name := range samplingKeys {
		v, ok := f.KV.Value("general.sampling." + key)
		if !ok {
			continue
		}
		x, ok := number(v)
		if !ok || math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		if out == nil {
			out = map[string]float64{}
		}
		out[name] = x
	}
	return out
}

// number returns a number without the digits that its conversion to float64
// adds: 0.95 as a float32 becomes 0.95.
func number(v gguf.Value) (float64, bool) {
	if n, ok := v.Int(); ok {
		return float64(n), true
	}
	x, ok := v.Float()
	if float64(float32(x)) == x {
		x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64)
	}
	return x, ok
}

// thinkMarks lists texts with which templates write or strip reasoning.
var thinkMarks = []string{"enable_thinking", "<think>", "</think>", "[THINK]", "reasoning_content", "<|channel|>analysis", "<seed:think>", "thinking_budget"}

// thinks reports whether a chat template lets the model think before it answers.
func thinks(template string) bool {
	return slices.ContainsFunc(thinkMarks, func(mark string) bool { return strings.Contains(template, mark) })
}

// Prefix tokens of the models that can fill a gap, for files that do not name them.
// Source: llama_vocab in llama.cpp's llama-vocab.cpp.
var gapTokens = []string{"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>"}

// fills reports whether a model has a token for the text before a gap.
func fills(f *gguf.File) bool {
	if _, ok := f.KV.Uint("tokenizer.ggml.fim_pre_token_id"); ok {
		return true
	}
	if _, ok := f.KV.Uint("tokenizer.ggml.prefix_token_id"); ok {
		return true
	}
	v, _ := f.KV.Value("tokenizer.ggml.tokens")
	return slices.ContainsFunc(gapTokens, v.HasString)
}

// Names of general.file_type. Source: llama_ftype in llama.cpp's llama.h.
var fileTypes = map[uint64]string{
	0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K",
	11: "Q3_K_S", 12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M",
	18: "Q6_K", 19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S",
	25: "IQ4_NL", 26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M",
	32: "BF16", 36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0",
}

// quantisation returns the quantisation that the file states. If no tensor has
// one of its types, it returns the tensor type with the most bytes.
func quantisation(f *gguf.File) string {
	bytes := map[dtype.Type]int{}
	for i := range f.Tensors {
		bytes[f.Tensors[i].Type] += len(f.Tensors[i].Data)
	}
	if id, ok := f.KV.Uint("general.file_type"); ok {
		name := fileTypes[id]
		for t := range bytes {
			if len(name) >= 2 && len(t.String()) >= 2 && name[:2] == t.String()[:2] {
				return name
			}
		}
	}
	if len(bytes) == 0 {
		return ""
	}
	types := make([]dtype.Type, 0, len(bytes))
	for t := range bytes {
		types = append(types, t)
	}
	return slices.MaxFunc(types, func(a, b dtype.Type) int {
		return cmp.Or(cmp.Compare(bytes[a], bytes[b]), cmp.Compare(b, a))
	}).String()
}
