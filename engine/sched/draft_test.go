package sched_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"godwit/engine/kv"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// oracle proposes the tokens of a known answer, some of them replaced by wrong
// ones.
type oracle struct {
	prompt   int
	answer   []llm.Token
	wrong    float64
	rng      *rand.Rand
	verified int
}

func (o *oracle) Draft(dst, tokens []llm.Token, n int) []llm.Token {
	have := len(tokens) - o.prompt
	for _, tok := range o.answer[min(have, len(o.answer)):] {
		if n--; n < 0 {
			break
		}
		if o.rng.Float64() < o.wrong {
			tok = (tok + 1) % vocab
		}
		dst = append(dst, tok)
	}
	if o.rng.IntN(9) == 0 {
		dst = append(dst, vocab+3, 1, 2) // an invalid token, and more tokens than requested
	}
	return dst
}

func (o *oracle) Verified(n int) { o.verified += n }

// Answers with drafts equal answers of one token per step, whatever is
// proposed. So do later answers that reuse their cells.
func TestDrafts(t *testing.T) {
	for _, c := range []struct {
		name   string
		k      *kv.Type
		window int
		single bool
	}{
		{"f32", nil, 0, false},
		{"a window", nil, 70, false},
		{"single rows", nil, 70, true},
		{"gw3", parse(t, "gw3"), 0, false},
		{"gw3, single rows", parse(t, "gw3"), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			kind := tiny{k: c.k, v: c.k, cells: 4096, seqs: 4, context: 330, rows: 48, window: c.window, seed: 5, single: c.single, outputs: 16}
			plain, _ := newTiny(t, kind)
			s, f := newTiny(t, kind)
			r := rand.New(rand.NewPCG(11, 2))
			stem := text(1, 150)
			rounds := 6
			if c.k != nil {
				rounds = 3
			}
			if testing.Short() { // with the race detector
				rounds = 1
			}
			for round := range rounds {
				var wait sync.WaitGroup
				for i := range 1 + r.IntN(4) {
					prompt := slices.Concat(stem[:r.IntN(len(stem))], text(uint64(100*round+i), 1+r.IntN(60)))
					n := 1 + r.IntN(120)
					if round == rounds-1 {
						n = 700 // the job ends because the context is full
					}
					cold := one(t, plain, sched.Job{Prompt: prompt, Slot: -1, Fresh: true}, n)
					o := &oracle{len(prompt), cold.tokens, r.Float64() / 2, rand.New(rand.NewPCG(uint64(i), 3)), 0}
					job := sched.Job{Prompt: prompt, Slot: -1, Apart: r.IntN(3) == 0, Drafter: o}
					wait.Go(func() {
						got := one(t, s, job, n)
						if !slices.Equal(got.tokens, cold.tokens) {
							t.Errorf("round %d, job %d: %v, want %v", round, i, got.tokens, cold.tokens)
						}
						if got.stats.Accepted != o.verified || got.stats.Drafted < got.stats.Accepted || n > 60 && o.verified == 0 {
							t.Errorf("round %d, job %d: %d of %d drafted tokens accepted, its drafter knows of %d", round, i, got.stats.Accepted, got.stats.Drafted, o.verified)
						}
					})
				}
				wait.Wait()
			}
			rows := 0
			for _, st := range f.taken() {
				rows = max(rows, st.Decode)
			}
			if rows < 8 || rows > 16 {
				t.Errorf("steps verified at most %d rows, want 8 to 16", rows)
			}
		})
	}
}

// one runs a job to its end.
func one(t testing.TB, s *sched.Sched, job sched.Job, n int) result {
	done, err := begin(t.Context(), s, job, n, nil)
	if err != nil {
		t.Error(err)
		return result{}
	}
	got := <-done
	if got.err != nil {
		t.Error(fmt.Errorf("%d tokens asked, %d: %w", n, len(got.tokens), got.err))
	}
	return got
}
