package api

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"godwit/app/hub"
	"godwit/engine"
	"godwit/engine/dtype"
	"godwit/engine/gguf"
)

// Each prompt in a list gets its own answer, or n_cmpl answers if requested, whole
// and streamed.
func TestCompletionList(t *testing.T) {
	v := shared(t)
	single := func(prompt any) any {
		return v.post("/completion", object{"prompt": prompt, "n_predict": 3})["content"]
	}
	hello, world := single("Hello"), single([]any{9, 10, "World"})
	var list []any
	r := v.ask("POST", "/completion", object{"prompt": []any{"Hello", []any{9, 10, "World"}}, "n_predict": 3})
	list, _ = r.maybe().([]any)
	if len(list) != 2 || at(list, 0, "content") != hello || at(list, 1, "content") != world || at(list, 1, "index") != 1.0 {
		t.Errorf("two prompts: %s, want %q and %q", r.body, hello, world)
	}
	r = v.ask("POST", "/completion", object{"prompt": []any{"Hello", "World"}, "n_cmpl": 2, "n_predict": 2, "temperature": 1, "seed": 3})
	if list, _ = r.maybe().([]any); len(list) != 4 || at(list, 3, "index") != 3.0 || at(list, 0, "generation_settings", "seed") != 3.0 || at(list, 1, "generation_settings", "seed") != 4.0 {
		t.Errorf("two answers to two prompts: %s", r.body)
	}
	if got := v.post("/completion", object{"prompt": []any{"Hello"}, "n_predict": 3}); got["content"] != hello {
		t.Errorf("a list of one prompt: %v", got)
	}
	texts, ends := map[float64]string{}, 0
	for _, e := range v.events("/completion", object{"prompt": []any{"Hello", []any{9, 10, "World"}}, "n_predict": 3, "stream": true}) {
		m := e.json(t)
		if m["stop"] == true {
			ends++
			continue
		}
		texts[m["index"].(float64)] += m["content"].(string)
	}
	if ends != 2 || texts[0] != hello || texts[1] != world {
		t.Errorf("streamed: %v, %d ends", texts, ends)
	}
	if r := v.ask("POST", "/completion", object{"prompt": []any{"a", "b"}, "n_cmpl": 9}); r.status != 400 {
		t.Errorf("18 answers: %d", r.status)
	}
	for _, prompt := range []any{[]any{[]any{1, 2}, true}, []any{[]any{}, "a"}, []any{[]any{[]any{1}}}} {
		if r := v.ask("POST", "/completion", object{"prompt": prompt}); r.status != 400 || !strings.Contains(string(r.body), "prompt[") {
			t.Errorf("%v: %d %s", prompt, r.status, r.body)
		}
	}
}

// The settings in an answer are those with which it was generated.
func TestGenerationSettings(t *testing.T) {
	v := shared(t)
	r := v.post("/completion", object{
		"prompt": "a", "max_tokens": 5, "temperature": 0.5, "top_k": 7, "min_p": 0.2, "stop": []string{"zz"}, "seed": 11,
		"logit_bias": []any{[]any{5, 1.5}}, "n_keep": 2, "ignore_eos": true, "n_probs": 3, "typical_p": 0.9, "dry_multiplier": 0.5,
	})
	for path, want := range map[string]any{
		"n_predict": 5.0, "max_tokens": 5.0, "temperature": 0.5, "top_k": 7.0, "min_p": 0.2, "seed": 11.0, "n_keep": 2.0,
		"ignore_eos": true, "n_probs": 3.0, "typical_p": 0.9, "dry_multiplier": 0.5, "stream": false, "n_ctx": 1024.0,
	} {
		if got := at(r, "generation_settings", path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if got := at(r, "generation_settings", "stop", 0); got != "zz" {
		t.Errorf("stop: %v", got)
	}
	if got := at(r, "generation_settings", "logit_bias", 0, "bias"); got != 1.5 {
		t.Errorf("logit_bias: %v", got)
	}
}

// Optional fields about the work: field selection, prompt progress, and the timings
// of each piece, also in chats.
func TestProgressFields(t *testing.T) {
	v := shared(t)
	r := v.post("/completion", object{"prompt": "a", "n_predict": 2, "response_fields": []string{"content", "generation_settings/n_predict", "nothing", "content/x"}})
	if len(r) != 2 || r["generation_settings/n_predict"] != 2.0 || r["content"] == nil {
		t.Errorf("response_fields: %v", r)
	}
	long := strings.Repeat("water and sand ", 150)
	for path, body := range map[string]object{
		"/completion":          {"prompt": long, "n_predict": 3, "ignore_eos": true},
		"/v1/chat/completions": {"messages": user(long), "max_tokens": 3, "ignore_eos": true},
	} {
		if m := v.post(path, body); at(m, "timings", "predicted_n") != 3.0 {
			t.Errorf("%s has no timings: %v", path, m["timings"])
		}
		body["stream"], body["return_progress"], body["timings_per_token"], body["cache_prompt"] = true, true, true, false
		seen, pieces := 0.0, 0
		var last map[string]any
		for _, e := range v.events(path, body) {
			if e.data == "[DONE]" {
				continue
			}
			m := e.json(t)
			if p := m["prompt_progress"]; p != nil {
				if n := at(p, "processed").(float64); n < seen || n > at(p, "total").(float64) || at(p, "cache") != 0.0 {
					t.Errorf("%s: progress %v behind %v", path, p, seen)
				} else {
					seen = n
				}
				continue
			}
			if at(m, "timings", "predicted_n") != nil {
				pieces++
			}
			last = m
		}
		if seen < 300 || pieces < 3 || at(last, "timings", "predicted_n") != 3.0 {
			t.Errorf("%s: progress %v, %d pieces with times, the last %v", path, seen, pieces, last)
		}
	}
}

// /embedding returns the vectors of /v1/embeddings, with the requested norm.
func TestLlamaEmbedding(t *testing.T) {
	v := shared(t)
	want := at(v.post("/v1/embeddings", object{"input": "hello"}), "data", 0, "embedding").([]any)
	for _, path := range []string{"/embedding", "/embeddings"} {
		got := at(v.ask("POST", path, object{"content": "hello"}).maybe(), 0, "embedding", 0).([]any)
		for i := range want {
			if math.Abs(got[i].(float64)-want[i].(float64)) > 1e-6 {
				t.Fatalf("%s: value %d is %v, want %v", path, i, got[i], want[i])
			}
		}
	}
	for norm, size := range map[int]func(x []float64) float64{
		1: func(x []float64) (s float64) {
			for _, a := range x {
				s += math.Abs(a)
			}
			return s
		},
		0: func(x []float64) (s float64) {
			for _, a := range x {
				s = max(s, math.Abs(a))
			}
			return s / 32760
		},
	} {
		var row []float64
		for _, x := range at(v.ask("POST", "/embedding", object{"content": []string{"a", "hello"}, "embd_normalize": norm}).maybe(), 1, "embedding", 0).([]any) {
			row = append(row, x.(float64))
		}
		if got := size(row); math.Abs(got-1) > 1e-4 { // float32 rounds each of 576 values
			t.Errorf("norm %d: %v", norm, got)
		}
	}
	if r := v.ask("POST", "/embedding", object{}); r.status != 400 || !strings.Contains(string(r.body), "this field is required") {
		t.Errorf("nothing: %d %s", r.status, r.body)
	}
}

// reranker writes a small BERT with a classifier that scores pairs.
func reranker(t testing.TB, dir string) string {
	t.Helper()
	const embd, vocab = 32, 40
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	for i := len(words); i < vocab; i++ {
		words = append(words, fmt.Sprintf("\u2581w%c", 'a'+i-5))
	}
	types := make([]int32, vocab)
	for i := range types {
		types[i] = 1
		if i < 5 {
			types[i] = 3
		}
	}
	var out bytes.Buffer
	err := gguf.Write(&out, []gguf.KV{
		{Key: "general.architecture", Value: "bert"},
		{Key: "general.name", Value: "ranker"},
		{Key: "bert.context_length", Value: uint32(64)},
		{Key: "bert.embedding_length", Value: uint32(embd)},
		{Key: "bert.block_count", Value: uint32(1)},
		{Key: "bert.feed_forward_length", Value: uint32(64)},
		{Key: "bert.attention.head_count", Value: uint32(2)},
		{Key: "bert.attention.layer_norm_epsilon", Value: float32(1e-5)},
		{Key: "bert.attention.causal", Value: false},
		{Key: "bert.pooling_type", Value: uint32(4)},
		{Key: "tokenizer.ggml.model", Value: "bert"},
		{Key: "tokenizer.ggml.pre", Value: "jina-v2-en"},
		{Key: "tokenizer.ggml.tokens", Value: words},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.cls_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.bos_token_id", Value: uint32(2)},
		{Key: "tokenizer.ggml.seperator_token_id", Value: uint32(3)},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(3)},
		{Key: "tokenizer.ggml.unknown_token_id", Value: uint32(1)},
		{Key: "tokenizer.ggml.padding_token_id", Value: uint32(0)},
		{Key: "tokenizer.ggml.token_type_count", Value: uint32(2)},
	}, rankerTensors(embd, vocab))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ranker.gguf")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rankerTensors returns random weights for a BERT of one layer with a classifier.
func rankerTensors(embd, vocab int) []gguf.Tensor {
	rng := rand.New(rand.NewPCG(1, 2))
	var tensors []gguf.Tensor
	add := func(name string, shape ...int) {
		n := 1
		for _, d := range shape {
			n *= d
		}
		data := make([]byte, 0, 4*n)
		for range n {
			x := float32(rng.NormFloat64() * 0.3)
			if strings.Contains(name, "norm.weight") {
				x++
			}
			b := math.Float32bits(x)
			data = append(data, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
		}
		tensors = append(tensors, gguf.Tensor{Name: name, Type: dtype.F32, Shape: shape, Data: data})
	}
	add("token_embd.weight", embd, vocab)
	add("position_embd.weight", embd, 64)
	add("token_types.weight", embd, 2)
	for _, n := range []string{"token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"} {
		add(n+".weight", embd)
		add(n+".bias", embd)
	}
	for _, n := range []string{"attn_q", "attn_k", "attn_v", "attn_output"} {
		add("blk.0."+n+".weight", embd, embd)
		add("blk.0."+n+".bias", embd)
	}
	add("blk.0.ffn_up.weight", embd, 64)
	add("blk.0.ffn_up.bias", 64)
	add("blk.0.ffn_down.weight", 64, embd)
	add("blk.0.ffn_down.bias", embd)
	add("cls.weight", embd, embd)
	add("cls.bias", embd)
	add("cls.output.weight", embd, 1)
	add("cls.output.bias", 1)
	return tensors
}

// Rerankers score documents under every name of the endpoint. Other models give an
// error that says what is needed.
func TestRerank(t *testing.T) {
	dir := t.TempDir()
	lib, err := hub.Open(hub.Options{Dir: dir, URL: "https://hub.invalid"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := lib.Find(reranker(t, dir))
	if err != nil || m.Error != "" {
		t.Fatal(err, m.Error)
	}
	v := start(t, func(o *setup) {
		o.Library, o.Model = lib, &m
		o.Engine.Context, o.Engine.Cells, o.Engine.UBatch = 0, 0, 0
	})
	docs := []any{"wa wb", object{"text": "wc wd we"}, "wa wb", "wf"}
	var scores []float64
	for _, path := range []string{"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"} {
		r := v.post(path, object{"query": "wa", "documents": docs, "return_documents": true})
		list := r["results"].([]any)
		byIndex, order := map[float64]float64{}, []float64{}
		for _, x := range list {
			byIndex[at(x, "index").(float64)] = at(x, "relevance_score").(float64)
			order = append(order, -at(x, "relevance_score").(float64))
		}
		if len(list) != 4 || !slices.IsSorted(order) || byIndex[0] != byIndex[2] || byIndex[0] == byIndex[1] || at(r, "usage", "prompt_tokens") == 0.0 {
			t.Errorf("%s: %v", path, r)
		}
		scores = order
	}
	r := v.post("/v1/rerank", object{"query": "wa", "documents": docs, "top_n": 1})
	if list := r["results"].([]any); len(list) != 1 || at(list, 0, "relevance_score") != -scores[0] || at(list, 0, "document") != nil {
		t.Errorf("top_n: %v", r)
	}
	if list, _ := v.ask("POST", "/rerank", object{"query": "wa", "texts": []string{"wb", "wc"}}).maybe().([]any); len(list) != 2 || at(list, 0, "score") == nil {
		t.Errorf("texts: %v", list)
	}
	for _, body := range []object{{"query": "a"}, {"documents": docs}, {"query": "a", "documents": []any{1}}, {"query": "a", "documents": []any{object{}}}} {
		if r := v.ask("POST", "/rerank", body); r.status != 400 {
			t.Errorf("%v: %d %s", body, r.status, r.body)
		}
	}
	other := shared(t)
	if r := other.ask("POST", "/rerank", object{"query": "a", "documents": []string{"b"}}); r.status != 400 || !strings.Contains(string(r.body), "reranker") || at(r.json(t), "error", "code") != 400.0 {
		t.Errorf("a chat model: %d %s", r.status, r.body)
	}
}

func TestInputTokens(t *testing.T) {
	v := shared(t)
	r := v.post("/v1/chat/completions/input_tokens", object{"messages": user(question)})
	want := at(v.post("/v1/chat/completions", object{"messages": user(question), "max_tokens": 1}), "usage", "prompt_tokens")
	if r["object"] != "response.input_tokens" || r["input_tokens"] != want {
		t.Errorf("%v, want %v tokens", r, want)
	}
}

// Models load and unload by request, and the event stream reports it.
func TestModelEvents(t *testing.T) {
	v := start(t, func(o *setup) {
		o.Library = library(t)
		o.Settings.Server.KeepAlive = -1
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := make(chan string, 64)
	go func() {
		r, err := v.request(ctx, "GET", "/models/sse", nil)
		if err != nil {
			return
		}
		follow(t, r, seen)
	}()
	expect := func(want string) {
		t.Helper()
		for late := time.After(60 * time.Second); ; {
			select {
			case line := <-seen:
				if strings.Contains(line, want) {
					return
				}
			case <-late:
				t.Fatalf("no event with %s", want)
			}
		}
	}
	expect(`"status":"unloaded"`)
	if r := v.post("/models/load", object{"model": "tiny-chat"}); r["success"] != true {
		t.Errorf("load: %v", r)
	}
	expect(`"status":"loaded"`)
	if r := v.post("/models/unload", object{"model": "tiny-chat"}); r["success"] != true {
		t.Errorf("unload: %v", r)
	}
	expect(`"status":"unloaded"`)
	if r := v.post("/models", object{"model": "tiny-chat"}); r["success"] != true {
		t.Errorf("a model that is there: %v", r)
	}
	for _, path := range []string{"/models/load", "/models/unload"} {
		if r := v.ask("POST", path, object{"model": "nope"}); r.status != 404 {
			t.Errorf("%s of nothing: %d", path, r.status)
		}
	}
	if r := v.ask("POST", "/models", object{"model": "../x"}); r.status != 400 {
		t.Errorf("download of ../x: %d %s", r.status, r.body)
	}
	if r := v.post("/models", object{"model": "nobody/nothing:Q4_K_M"}); r["success"] != true {
		t.Errorf("download: %v", r)
	}
	expect(`download_failed`)
	if r := v.ask("DELETE", "/models?model=tiny-chat", nil); r.status != 200 {
		t.Errorf("delete: %d %s", r.status, r.body)
	}
	expect(`model_remove`)
}

// The scales of adapters can be changed at run time. The answer changes, and with
// all adapters off it is the model's own.
func TestLoRAScales(t *testing.T) {
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	rng := rand.New(rand.NewPCG(3, 4))
	tensor := func(name string, shape ...int) gguf.Tensor {
		var data []byte
		for range shape[0] * shape[1] {
			b := math.Float32bits(float32(rng.NormFloat64()))
			data = append(data, byte(b), byte(b>>8), byte(b>>16), byte(b>>24))
		}
		return gguf.Tensor{Name: name, Type: dtype.F32, Shape: shape, Data: data}
	}
	var out bytes.Buffer
	if err := gguf.Write(&out, []gguf.KV{
		{Key: "general.architecture", Value: "llama"},
		{Key: "general.type", Value: "adapter"},
		{Key: "adapter.type", Value: "lora"},
		{Key: "adapter.lora.alpha", Value: float32(8)},
	}, []gguf.Tensor{tensor("blk.3.attn_output.weight.lora_a", 576, 8), tensor("blk.3.attn_output.weight.lora_b", 8, 576)}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	v := startModel(t, func(o *setup) {
		o.Engine.Context, o.Engine.Cells, o.Engine.LoRA = 256, 512, []engine.LoRA{{Path: path}}
	})
	answer := func(v *live) any {
		return at(v.post("/v1/completions", object{"prompt": question, "max_tokens": 12}), "choices", 0, "text")
	}
	scale := func() any { return at(v.ask("GET", "/lora-adapters", nil).maybe(), 0, "scale") }
	with := answer(v)
	if list := v.ask("GET", "/lora-adapters", nil).maybe(); at(list, 0, "path") != path || scale() != 1.0 || at(list, 1) != nil {
		t.Errorf("adapters: %v", list)
	}
	plain := answer(shared(t))
	if with == plain {
		t.Fatal("the adapter changes nothing")
	}
	for _, c := range []struct {
		body  string
		scale float64
		want  any
	}{{"[]", 0, plain}, {`[{"id":0,"scale":1}]`, 1, with}, {`[{"id":0,"scale":0}]`, 0, plain}} {
		if r := v.ask("POST", "/lora-adapters", c.body); r.status != 200 {
			t.Fatalf("%s: %d %s", c.body, r.status, r.body)
		}
		if got := answer(v); got != c.want || scale() != c.scale {
			t.Errorf("%s: %q with scale %v, want %q", c.body, got, scale(), c.want)
		}
	}
	for _, body := range []string{`{}`, `[{"id":1,"scale":1}]`, `[{"id":0}]`, `[{"id":-1,"scale":1}]`, `[1]`, `x`} {
		if r := v.ask("POST", "/lora-adapters", body); r.status != 400 {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
}
