package draft

import (
	"math/rand/v2"
	"testing"
	"time"

	"godwit/engine/llm"
)

// guesser is a small model whose tokens are right with the probability that it states.
type guesser struct {
	sure  float64
	takes time.Duration // time of a token
	calls int
}

func (g *guesser) Read([]llm.Token) bool { return true }

func (g *guesser) Continue(_ []llm.Token, next func(t llm.Token, p float64) bool) {
	for t := llm.Token(0); ; t++ {
		g.calls++
		if !next(t, g.sure) {
			return
		}
	}
}

// runDrafts runs steps of a large model whose base and row take the given times, and
// returns the tokens, proposals and model calls of the small one.
func runDrafts(g *guesser, base, row time.Duration, steps int) (tokens, proposed int) {
	costs := new(Costs)
	m := Model{From: g, Costs: costs}
	r := rand.New(rand.NewPCG(1, 2))
	for range steps {
		costs.token = g.takes.Seconds() // in place of the clock
		d := m.Draft(nil, nil, 15)
		costs.token = g.takes.Seconds()
		right := 0
		for right < len(d) && r.Float64() < g.sure {
			right++
		}
		m.Verified(right)
		costs.Step(1+len(d), base+time.Duration(1+len(d))*row)
		tokens, proposed = tokens+right+1, proposed+len(d)
	}
	return tokens, proposed
}

// TestModelLength proposes many tokens if they are cheap and sure, and hardly any if they
// cost more than they save.
func TestModelLength(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name             string
		sure             float64
		token, base, row time.Duration
		least, most      float64 // proposals per step
	}{
		{"cheap and sure", 0.95, ms, 10 * ms, ms, 5, 15},
		{"cheap and unsure", 0.4, ms, 10 * ms, ms, 0.5, 3},
		{"rows as dear as steps", 0.95, ms, 0, 10 * ms, 0, 0.2},
		{"tokens as dear as steps", 0.95, 11 * ms, 10 * ms, ms, 0, 0.2},
	} {
		g := &guesser{sure: c.sure, takes: c.token}
		const steps = 400
		tokens, proposed := runDrafts(g, c.base, c.row, steps)
		if n := float64(proposed) / steps; n < c.least || n > c.most {
			t.Errorf("%s: %.2f proposals per step, want %v to %v (%d tokens)", c.name, n, c.least, c.most, tokens)
		}
	}
}

// TestCosts finds the base and the time of a row of steps.
func TestCosts(t *testing.T) {
	var c Costs
	if step, row, token := c.draft(); step <= row+token {
		t.Errorf("before the first step: %v, %v, %v", step, row, token)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 1 + r.IntN(8)
		c.Step(n, 20*time.Millisecond+time.Duration(n)*2*time.Millisecond)
	}
	step, row, _ := c.draft()
	if row < 0.0019 || row > 0.0021 || step < 0.021 || step > 0.023 {
		t.Errorf("a step of %v s and a row of %v s, want 0.022 and 0.002", step, row)
	}
	c.Step(2, 24*time.Millisecond)
	c.draft()
	c.draft()
	c.Step(2, 24*time.Millisecond)
	if half, _, _ := c.draft(); half > 0.6*step {
		t.Errorf("an accepted token of one of two jobs saves %v s of %v", half, step)
	}
}
