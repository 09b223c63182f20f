package tune

import (
	"maps"
	"strings"

	"godwit/app/hub"
	"godwit/engine"
)

// Advice is what the maker of a model recommends for sampling.
type Advice struct {
	Sampling map[string]float64 `json:"sampling"`
	Source   string             `json:"source"` // URL of the recommendation; empty if it is in the model's file
}

// family is a recommendation for models of one kind.
type family struct {
	arch     string // prefix of the architecture; empty for any
	base     string // prefix of the base name in the file, in lower case; empty for any
	thinking *bool  // whether the chat template lets the model think; nil for either
	sampling map[string]float64
	source   string
}

var yes, no = true, false

// families lists the recommendations of makers; the first that fits is used. Each source
// is the maker's own page.
var families = []family{
	{base: "deepseek-r1", sampling: map[string]float64{"temperature": 0.6, "top_p": 0.95}, source: "https://huggingface.co/deepseek-ai/DeepSeek-R1"},
	{base: "smollm3", sampling: map[string]float64{"temperature": 0.6, "top_p": 0.95}, source: "https://huggingface.co/HuggingFaceTB/SmolLM3-3B"},
	{base: "smollm2", sampling: map[string]float64{"temperature": 0.2, "top_p": 0.9}, source: "https://huggingface.co/HuggingFaceTB/SmolLM2-1.7B-Instruct"},
	{base: "mistral-small", sampling: map[string]float64{"temperature": 0.15}, source: "https://huggingface.co/mistralai/Mistral-Small-3.2-24B-Instruct-2506"},
	{base: "llama-3", sampling: map[string]float64{"temperature": 0.6, "top_p": 0.9}, source: "https://huggingface.co/meta-llama/Llama-3.2-3B-Instruct"},
	{base: "meta-llama-3", sampling: map[string]float64{"temperature": 0.6, "top_p": 0.9}, source: "https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct"},
	{base: "qwen2.5", sampling: map[string]float64{"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repeat_penalty": 1.05}, source: "https://huggingface.co/Qwen/Qwen2.5-7B-Instruct"},
	{base: "qwen3-coder", sampling: map[string]float64{"temperature": 0.7, "top_p": 0.8, "top_k": 20, "repeat_penalty": 1.05}, source: "https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct"},
	{arch: "gemma3", sampling: map[string]float64{"temperature": 1, "top_k": 64, "top_p": 0.95, "min_p": 0}, source: "https://huggingface.co/google/gemma-3-4b-it"},
	{arch: "qwen3", base: "qwen3", thinking: &yes, sampling: map[string]float64{"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0}, source: "https://huggingface.co/Qwen/Qwen3-8B"},
	{arch: "qwen3", base: "qwen3", thinking: &no, sampling: map[string]float64{"temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0}, source: "https://huggingface.co/Qwen/Qwen3-4B-Instruct-2507"},
	{arch: "gpt-oss", sampling: map[string]float64{"temperature": 1, "top_p": 1}, source: "https://github.com/openai/gpt-oss"},
	{arch: "lfm2", sampling: map[string]float64{"temperature": 0.3, "min_p": 0.15, "repeat_penalty": 1.05}, source: "https://huggingface.co/LiquidAI/LFM2-1.2B"},
}

// Recommend returns the sampling parameters that the maker of a model recommends, from
// its file, otherwise by its family. It returns nil if nothing is known.
func Recommend(m *hub.Info) *Advice {
	if in := sound(m.Sampling); len(in) > 0 {
		return &Advice{Sampling: in}
	}
	if !m.Chats {
		return nil // recommendations are for models that were trained to chat
	}
	for i := range families {
		f := &families[i]
		if strings.HasPrefix(m.Arch, f.arch) && strings.HasPrefix(m.Base, f.base) && (f.thinking == nil || *f.thinking == m.Thinking) {
			return &Advice{Sampling: maps.Clone(f.sampling), Source: f.source}
		}
	}
	return nil
}

// sound returns the values that are within the bounds of their parameters.
func sound(in map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, f := range engine.SamplingFields() {
		if x, ok := in[f.Name]; ok && f.Check(x) == nil {
			out[f.Name] = x
		}
	}
	return out
}
