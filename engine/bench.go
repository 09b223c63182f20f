package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"godwit/engine/llm"
	"godwit/engine/sched"
)

// BenchTest is what [Engine.Bench] times: reading Prompt tokens, or generating
// Gen tokens one by one if Prompt is 0.
type BenchTest struct {
	Depth     int // tokens already in the context
	Prompt    int
	Gen       int
	Sequences int  // simultaneous sequences; 0: one
	Synthetic bool // all but the first 512 tokens of the depth are copies of cells
}

// synthesised is how much of a synthetic depth is read.
const synthesised = 512

// Bench fills the context and times a test; the time is that of all sequences
// together. The tokens are arbitrary; nothing is sampled.
func (e *Engine) Bench(ctx context.Context, t BenchTest) (time.Duration, error) {
	n := max(t.Sequences, 1)
	b := &bench{test: t, sequences: n}
	for i := range n {
		tokens := e.benchTokens(t.Depth+max(t.Prompt, 1), uint32(i+1))
		if t.Depth > 0 {
			// The timed job takes these cells over.
			if err := e.fill(ctx, i, tokens[:t.Depth], t.Synthetic); err != nil {
				return 0, err
			}
		}
		b.prompts = append(b.prompts, tokens)
	}
	done := make(chan error, n)
	jobs := make([]sched.Job, n)
	for i := range jobs {
		jobs[i] = b.job(i, uint32(e.Config().Vocab))
		jobs[i].Done = func(_ sched.Finish, _ sched.Stats, err error) { done <- err }
	}
	if err := e.submit(ctx, jobs...); err != nil {
		return 0, err
	}
	var err error
	for range jobs {
		err = cmp.Or(err, <-done) // often all the same
	}
	if want := n * t.Gen; err == nil && t.Prompt == 0 && b.generated < want {
		err = fmt.Errorf("%d of %d tokens generated: no room for %d sequences of that length", b.generated, want, n)
	}
	return b.end.Sub(b.start), err
}

// benchTokens are arbitrary tokens, the same for the same seed.
func (e *Engine) benchTokens(n int, seed uint32) []llm.Token {
	tokens := make([]llm.Token, n)
	for i := range tokens {
		seed = seed*1664525 + 1013904223
		tokens[i] = llm.Token(seed >> 8 % uint32(e.Config().Vocab))
	}
	return tokens
}

// fill reads tokens into a slot and skips those that the slot holds already.
func (e *Engine) fill(ctx context.Context, slot int, tokens []llm.Token, synthetic bool) error {
	if !synthetic || len(tokens) <= synthesised {
		return e.wait(ctx, sched.Job{Prompt: tokens, Slot: slot})
	}
	err := e.sched.Stretch(ctx, slot, tokens)
	if !errors.Is(err, sched.ErrShort) {
		return err
	}
	if err := e.wait(ctx, sched.Job{Prompt: tokens[:synthesised], Slot: slot}); err != nil {
		return err
	}
	return e.sched.Stretch(ctx, slot, tokens)
}

// bench is a test under way. Only the scheduler's goroutine touches it.
type bench struct {
	test       BenchTest
	sequences  int
	prompts    [][]llm.Token
	begun      int // sequences that have begun
	generated  int // tokens by all sequences, once all have begun
	start, end time.Time
}

func (b *bench) job(slot int, vocab uint32) sched.Job {
	prompt := b.prompts[slot]
	j := sched.Job{Prompt: prompt, Slot: slot, Fresh: b.test.Depth == 0}
	if b.test.Prompt > 0 {
		j.Prefilled = func(int, int, int) {
			if b.start.IsZero() {
				b.start = time.Now()
			}
		}
		j.Want = func(p int) bool { return p == len(prompt)-1 }
		j.Row = func(int, []float32) error { b.end = time.Now(); return nil }
		return j
	}
	state, first := uint32(slot+1), true
	j.Next = func([]float32) (llm.Token, bool, error) {
		b.end = time.Now()
		switch {
		case first:
			first = false
			b.begun++
			if b.begun == b.sequences {
				b.start = b.end
			}
		case b.begun == b.sequences:
			b.generated++
		}
		state = state*1664525 + 1013904223
		return llm.Token(state >> 8 % vocab), b.generated < b.sequences*b.test.Gen, nil
	}
	return j
}
