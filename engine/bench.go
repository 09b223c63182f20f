package engine

import (
	"context"
	"time"

	"godwit/engine/llm"
	"godwit/engine/sched"
)

// Bench reads depth tokens, then times reading prompt more or generating gen
// tokens one by one. The tokens are arbitrary; nothing is sampled.
func (e *Engine) Bench(ctx context.Context, depth, prompt, gen int) (time.Duration, error) {
	tokens := make([]llm.Token, depth+max(prompt, 1))
	state := uint32(1)
	for i := range tokens {
		state = state*1664525 + 1013904223
		tokens[i] = llm.Token(int(state>>8) % e.Config().Vocab)
	}
	if depth > 0 {
		// Fills the cache; the timed job takes these tokens over.
		if err := e.wait(ctx, sched.Job{Prompt: tokens[:depth], Slot: 0, Fresh: true}); err != nil {
			return 0, err
		}
	}
	var start, end time.Time
	left := gen
	j := sched.Job{Prompt: tokens, Slot: 0, Fresh: depth == 0}
	j.Prefilled = func(int, int) {
		if start.IsZero() {
			start = time.Now()
		}
	}
	if gen == 0 {
		j.Want = func(p int) bool { return p == len(tokens)-1 }
		j.Row = func(int, []float32) error { end = time.Now(); return nil }
	} else {
		j.Next = func([]float32) (llm.Token, bool, error) {
			end = time.Now()
			if left == gen {
				start = end
			}
			left--
			state = state*1664525 + 1013904223
			return llm.Token(int(state>>8) % e.Config().Vocab), left >= 0, nil
		}
	}
	err := e.wait(ctx, j)
	return end.Sub(start), err
}
