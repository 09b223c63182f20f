package engine_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"godwit/engine"
	"godwit/engine/internal/golden"
	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/testmodel"
)

// writeContinuations regenerates testdata/continuations.json. A commit that changes
// this file must give the reason.
var writeContinuations = flag.Bool("continuations.write", false, "make testdata/continuations.json anew")

// realModels are the two real models. name is also the name of their golden data.
var realModels = []struct {
	name string
	path func(testing.TB) string
}{{"smollm2", testmodel.SmolLM2}, {"gemma3", testmodel.Gemma3}}

// keptPairs are the pairs that every commit tests on both models. GODWIT_TEST=all
// adds every type on both sides.
func keptPairs() []kv.Pair {
	return []kv.Pair{
		{K: "f16", V: "f16"},
		{K: "q8_0", V: "q8_0"},
		{K: "turbo4", V: "turbo4"},
		{K: "turbo3", V: "turbo3"},
		{K: "turbo2", V: "turbo2"},
		{K: "q8_0", V: "turbo3"},
		{K: "tbq4", V: "tbq4"},
		{K: "tbq3", V: "tbq3"},
		{K: "tq3_0", V: "tq3_0"},
	}
}

// everyPair returns keptPairs, and pairs with the same type for K and V for every other
// type, except types whose layout is already in the list.
func everyPair(t *testing.T, path string) []kv.Pair {
	t.Helper()
	var list []kv.Pair
	seen := map[string]bool{}
	add := func(p kv.Pair) {
		want, err := engine.ParseCacheTypes(p.K, p.V)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := engine.PlanFile(path, "", engine.Options{Context: 512, Parallel: 1, Want: want})
		if err != nil {
			t.Fatal(err)
		}
		var forms strings.Builder
		for _, l := range plan.Layers {
			fmt.Fprintf(&forms, "%s/%s ", l.K.Active, l.V.Active)
		}
		if !seen[forms.String()] {
			seen[forms.String()] = true
			list = append(list, p)
		}
	}
	for _, p := range keptPairs() {
		add(p)
	}
	for _, t := range kv.Types() {
		add(kv.Pair{K: t.Name, V: t.Name})
	}
	return list
}

func testAll() bool { return os.Getenv("GODWIT_TEST") == "all" }

// openPair opens a real model with a pair of types.
func openPair(t testing.TB, path string, p kv.Pair, o engine.Options) *engine.Engine {
	t.Helper()
	want, err := engine.ParseCacheTypes(p.K, p.V)
	if err != nil {
		t.Fatal(err)
	}
	o.Want, o.Parallel = want, 1
	return openPath(t, path, o)
}

// continuation is a model's greedy continuation of a prompt.
type continuation struct {
	Model   string      `json:"model"`
	K       string      `json:"type_k"`
	V       string      `json:"type_v"`
	Prompt  []llm.Token `json:"prompt"`
	Tokens  []llm.Token `json:"tokens"`
	Margins []float32   `json:"margins"` // difference between the logits of a token and of the runner-up
}

const (
	continuationTokens = 64
	continuationsFile  = "testdata/continuations.json"
)

// TestContinuations decodes stored continuations token by token. It compares the model's
// choices where the stored margin is large enough; see testdata/README.md. The same
// tokens in one batch must give the same bits. RATIONALE.md describes the effect of a
// different last bit.
func TestContinuations(t *testing.T) {
	if *writeContinuations {
		makeContinuations(t)
	}
	raw, err := os.ReadFile(filepath.FromSlash(continuationsFile))
	if err != nil {
		t.Fatal(err)
	}
	var list []continuation
	if err := json.Unmarshal(raw, &list); err != nil {
		t.Fatal(err)
	}
	for _, m := range realModels {
		path := m.path(t)
		for _, p := range keptPairs() {
			t.Run(fmt.Sprintf("%s/%s/%s", m.name, p.K, p.V), func(t *testing.T) {
				i := slices.IndexFunc(list, func(c continuation) bool { return c.Model == m.name && c.K == p.K && c.V == p.V })
				if i < 0 {
					t.Fatal("no continuation is stored")
				}
				c := list[i]
				e := openPair(t, path, p, engine.Options{Context: 512})
				rows := bothPaths(t, e, slices.Concat(c.Prompt, c.Tokens[:len(c.Tokens)-1]))
				vocab, clear := e.Config().Vocab, 0
				for i, want := range c.Tokens {
					if c.Margins[i] <= margin {
						continue
					}
					clear++
					if got := argMax(rows[(len(c.Prompt)-1+i)*vocab:][:vocab]); got != want {
						t.Errorf("token %d is %d, want %d (margin %g)", i, got, want, c.Margins[i])
					}
				}
				if len(c.Tokens) != continuationTokens || clear < continuationTokens/2 {
					t.Errorf("%d tokens stored, %d of them clear", len(c.Tokens), clear)
				}
			})
		}
	}
}

// bothPaths returns the logits at every position, read in one batch, and
// checks that decoding token by token gives the same bits.
func bothPaths(t *testing.T, e *engine.Engine, tokens []llm.Token) []float32 {
	t.Helper()
	pos := make([]int, len(tokens))
	for i := range pos {
		pos[i] = i
	}
	batch, step := logits(t, e, tokens, pos, false), logits(t, e, tokens, pos, true)
	for i := range batch {
		if math.Float32bits(batch[i]) != math.Float32bits(step[i]) {
			vocab := e.Config().Vocab
			t.Fatalf("position %d, token %d: %g in one batch, %g token by token; mean divergence %g",
				i/vocab, i%vocab, batch[i], step[i], meanKL(batch, step, vocab))
		}
	}
	return batch
}

// TestBatchIsSteps compares batches and single steps for the pairs without a stored
// continuation.
func TestBatchIsSteps(t *testing.T) {
	for _, m := range realModels {
		pairs := []kv.Pair{{K: "f32", V: "f32"}}
		if testAll() {
			pairs = everyPair(t, m.path(t))
		}
		tokens := readReal(t, m.name+".json").Long.Tokens[:80]
		for _, p := range pairs {
			for _, float := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%s/float=%v", m.name, p.K, p.V, float), func(t *testing.T) {
					bothPaths(t, openPair(t, m.path(t), p, engine.Options{Context: 512, FloatAttn: float}), tokens)
				})
			}
		}
	}
}

// makeContinuations stores the current continuations of the models.
func makeContinuations(t *testing.T) {
	var list []continuation
	for _, m := range realModels {
		prompt := readReal(t, m.name+".json").Greedy[0].Tokens
		for _, p := range keptPairs() {
			e := openPair(t, m.path(t), p, engine.Options{Context: 512})
			c := continuation{Model: m.name, K: p.K, V: p.V, Prompt: prompt}
			for c.Margins == nil {
				c.extend(t, e)
			}
			list = append(list, c)
		}
	}
	var out strings.Builder
	out.WriteString("[\n")
	for i, c := range list {
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s%s\n", line, map[bool]string{true: ",", false: ""}[i+1 < len(list)])
	}
	out.WriteString("]\n")
	if err := os.WriteFile(filepath.FromSlash(continuationsFile), []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// extend completes a continuation and checks it against the logits. Answer never chooses
// a token that ends the text. If such a token has the largest logit, extend puts it into
// the continuation, discards the tokens after it, and must be called again.
func (c *continuation) extend(t *testing.T, e *engine.Engine) {
	t.Helper()
	all := slices.Concat(c.Prompt, c.Tokens)
	if n := continuationTokens - len(c.Tokens); n > 0 {
		_, res, err := e.Answer(t.Context(), engine.Request{Tokens: all, MaxTokens: n, IgnoreEOG: true})
		if err != nil {
			t.Fatal(err)
		}
		c.Tokens = append(c.Tokens, res.Tokens...)
	}
	pos := make([]int, continuationTokens)
	for i := range pos {
		pos[i] = len(c.Prompt) - 1 + i
	}
	rows := logits(t, e, slices.Concat(c.Prompt, c.Tokens[:continuationTokens-1]), pos, false)
	var margins []float32
	for row := range slices.Chunk(rows, e.Config().Vocab) {
		best := argMax(row)
		if i := len(margins); best != c.Tokens[i] {
			c.Tokens = append(c.Tokens[:i], best)
			return
		}
		top := row[best]
		row[best] = float32(math.Inf(-1))
		margins = append(margins, top-slices.Max(row))
	}
	c.Margins = margins
}

// TestLongPrompt requests the continuation of 6,000 tokens ten times. The first
// answer is computed, and the others reuse its prompt. For the mixed pair (with
// GODWIT_TEST=all for every type on Gemma), the last request computes the prompt
// again. All answers are the same.
func TestLongPrompt(t *testing.T) {
	text := string(golden.Read(t, "models", "ppl", "corpus_en.txt"))
	const length, runs = 6000, 10
	for _, m := range realModels {
		pairs := keptPairs()
		if testAll() {
			pairs = everyPair(t, m.path(t))
		}
		for _, p := range pairs {
			mixed := p == kv.Pair{K: "q8_0", V: "turbo3"}
			// SmolLM2 takes twice as long as Gemma, which has short windows.
			if m.name == "smollm2" && !mixed && !testAll() {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s/%s", m.name, p.K, p.V), func(t *testing.T) {
				e := openPair(t, m.path(t), p, engine.Options{Context: 8192})
				tok, err := e.Model().Tokenizer()
				if err != nil {
					t.Fatal(err)
				}
				r := engine.Request{Tokens: tok.EncodeText(text, true, false)[:length], MaxTokens: 12, IgnoreEOG: true}
				var first []llm.Token
				for run := range runs {
					r.Fresh = run == runs-1 && (mixed || testAll() && m.name == "gemma3")
					_, res, err := e.Answer(t.Context(), r)
					if err != nil {
						t.Fatal(err)
					}
					if run == 0 {
						first = res.Tokens
					}
					if reused := run > 0 && !r.Fresh; res.Prompt != length || reused != (res.Cached > length-2*kv.PageCells) {
						t.Errorf("run %d: %d tokens of the prompt, %d reused", run, res.Prompt, res.Cached)
					}
					if len(res.Tokens) != r.MaxTokens || !slices.Equal(res.Tokens, first) {
						t.Errorf("run %d gave %v, the first %v", run, res.Tokens, first)
					}
				}
			})
		}
	}
}
