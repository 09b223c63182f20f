package engine_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"godwit/engine"
	"godwit/engine/grammar"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sample"
	"godwit/engine/sched"
)

// foretold proposes known answers with some wrong tokens.
type foretold struct {
	mu     sync.Mutex
	texts  [][]llm.Token // prompts with their answers
	random *rand.Rand
	vocab  int
}

func (f *foretold) Draft(dst, tokens []llm.Token, n int) []llm.Token {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range f.texts {
		if len(text) < len(tokens) || !slices.Equal(text[:len(tokens)], tokens) {
			continue
		}
		for _, t := range text[len(tokens):min(len(tokens)+n, len(text))] {
			if f.random.IntN(5) == 0 {
				t = llm.Token(f.random.IntN(f.vocab))
			}
			dst = append(dst, t)
		}
		break
	}
	return dst
}

func (f *foretold) Verified(int) {}

// TestDraftedAnswers checks that an answer has the same tokens, probabilities and
// text with any drafter, for every cache type and sampler, alone and next to other
// requests, with a grammar, and at the end of the context. CI draws some
// combinations.
func TestDraftedAnswers(t *testing.T) {
	seed := testSeed(t)
	rng := rand.New(rand.NewPCG(seed, 5))
	models, types := reuseModels(t), kv.Types()
	var mu sync.Mutex
	drafted, accepted, draws := 0, 0, 14
	if testAll() {
		draws = 400
	}
	for range draws {
		m, typ := models[rng.IntN(len(models))], types[rng.IntN(len(types))]
		t.Run(m.name+"/"+typ.Name, func(t *testing.T) {
			path, next := m.path(t), &foretold{random: rand.New(rand.NewPCG(seed, 6))}
			o := engine.Options{
				Context: 384, Cells: 1152, Parallel: 3, Want: layout.Want{K: typ, V: typ}, NoCalibration: true, Threads: 1,
				ContextShift: rng.IntN(4) == 0,
			}
			plain := openPath(t, path, o)
			o.Drafter = func([]llm.Token) sched.Drafter { return next }
			next.vocab = plain.Config().Vocab
			with := openPath(t, path, o)
			for range 3 {
				var wait sync.WaitGroup
				for range 1 + rng.IntN(3) {
					r := anyRequest(t, rng, plain.Config().Vocab)
					r.Fresh = true
					want := outcome(t, plain, r)
					r.Fresh = false
					next.mu.Lock()
					next.texts = append(next.texts, slices.Concat(r.Tokens, want.tokens))
					next.mu.Unlock()
					wait.Go(func() {
						got := outcome(t, with, r)
						mu.Lock()
						drafted, accepted = drafted+got.drafted, accepted+got.accepted
						mu.Unlock()
						got.drafted, got.accepted = 0, 0
						if !reflect.DeepEqual(got, want) {
							t.Errorf("%d tokens of prompt, %+v: %v, want %v", len(r.Tokens), r.Sampling, got, want)
						}
					})
				}
				wait.Wait()
			}
		})
	}
	t.Logf("%d of %d drafted tokens accepted", accepted, drafted)
	if accepted == 0 {
		t.Error("no drafted token was accepted")
	}
}

// result is everything that a caller sees of an answer.
type result struct {
	text, finish, err string
	tokens            []llm.Token
	probs             []engine.Token
	drafted, accepted int
}

// outcome runs a request to its end.
func outcome(t *testing.T, e *engine.Engine, r engine.Request) (o result) {
	for ev, err := range e.Generate(t.Context(), r) {
		if err != nil {
			o.err = err.Error()
			return o
		}
		o.text, o.probs = o.text+ev.Text, append(o.probs, ev.Tokens...)
		if x := ev.Result; x != nil {
			o.finish, o.tokens, o.drafted, o.accepted = x.Finish, x.Tokens, x.Drafted, x.Accepted
		}
	}
	return o
}

// anyRequest draws a request.
func anyRequest(t *testing.T, rng *rand.Rand, vocab int) engine.Request {
	r := engine.Request{MaxTokens: 1 + rng.IntN(160), IgnoreEOG: rng.IntN(2) == 0}
	for range 1 + rng.IntN(150) {
		r.Tokens = append(r.Tokens, llm.Token(rng.IntN(vocab)))
	}
	switch rng.IntN(4) {
	case 0: // greedy
	case 1:
		r.Sampling = sample.Params{Temperature: 0.8, Seed: rng.Int64N(1e9), TopK: 40, TopP: 0.95}
	case 2:
		r.Sampling = sample.Params{Temperature: 1.2, Seed: rng.Int64N(1e9), RepeatPenalty: 1.2, RepeatLastN: 64, FrequencyPenalty: 0.3}
	case 3:
		r.Sampling = sample.Params{Temperature: 0.6, Seed: rng.Int64N(1e9), DRYMultiplier: 0.8, DRYLastN: -1, XTCProbability: 0.3}
	}
	if rng.IntN(3) == 0 {
		r.Logprobs, r.TopLogprobs = true, 3
	}
	if rng.IntN(4) == 0 {
		r.Stop = []string{"e", "zz"}
	}
	if rng.IntN(4) == 0 {
		g, err := grammar.ParseGBNF(`root ::= [a-z0-9 ]+`)
		if err != nil {
			t.Fatal(err)
		}
		r.Grammar = g
	}
	if rng.IntN(8) == 0 {
		r.Tokens, r.MaxTokens = slices.Repeat(r.Tokens, 350/len(r.Tokens)), 120 // the full context ends the answer or shifts
	}
	return r
}
