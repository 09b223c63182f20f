package engine

import (
	"testing"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sample"
	"godwit/engine/sched"
	"godwit/engine/testmodel"
)

// Generating a token allocates nothing, from the scheduler through the device to
// the sampler, even across a page border of the cache.
func TestDecodeAllocs(t *testing.T) {
	chain := sample.Params{
		Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05,
		RepeatPenalty: 1.1, RepeatLastN: 64, DRYMultiplier: 0.8, Seed: 1,
	}
	packed, err := kv.Parse("turbo3")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		p    sample.Params
		want layout.Want
	}{
		{"greedy", sample.Params{}, layout.Want{}},
		{"chain", chain, layout.Want{}},
		{"packed", chain, layout.Want{K: packed, V: packed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := Open(t.Context(), testmodel.SmolLM2(t), Options{Context: 512, Parallel: 2, Want: c.want})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			tok, err := e.model.Tokenizer()
			if err != nil {
				t.Fatal(err)
			}
			s, err := sample.New(c.p, e.Config().Vocab, tok.Piece)
			if err != nil {
				t.Fatal(err)
			}
			const tokens = kv.PageCells + 1
			ask, told := make(chan bool), make(chan error)
			j := sched.Job{Prompt: []llm.Token{1, 2, 3, 4}, Slot: -1, Next: func(logits []float32) (llm.Token, bool, error) {
				more := <-ask
				next, err := s.Sample(logits, nil)
				told <- err
				return next, more, err
			}}
			done := make(chan error, 1)
			go func() { done <- e.wait(t.Context(), j) }()
			step := func(more bool) {
				ask <- more
				if err := <-told; err != nil {
					t.Error(err)
				}
			}
			const counters = 4 // allocations of the occasional reads of the device's counters
			n := counters + 1.
			for round := 0; n > counters && round < 3; round++ { // retry, because the runtime may also allocate
				n = testing.AllocsPerRun(1, func() { // calls this twice, first to warm up
					for range tokens {
						step(true)
					}
				})
			}
			step(false) // ending the job may allocate
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if n > counters {
				t.Errorf("%v allocations for %d tokens", n, tokens)
			}
		})
	}
}
