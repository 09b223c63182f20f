package sample

import (
	"fmt"

	"godwit/engine/llm"
)

// Logprob is a token with the natural logarithm of its probability.
type Logprob struct {
	Token   llm.Token
	Logprob float64
}

// Logprobs are the model's own probabilities at a position. They cover the
// whole vocabulary as in the logits, before grammar, bias, penalties,
// truncation and temperature. OpenAI's logprobs and top_logprobs have this
// meaning.
type Logprobs struct {
	top  []cand
	best float32
	norm float64 // logarithm of the sum, relative to best
	row  []float32
}

// Read reads a row and finds its n most likely tokens. Among equals, the lowest
// ids count. It keeps the row, and allocates only if n grows.
func (l *Logprobs) Read(logits []float32, n int) error {
	v := view{logits: logits}
	best, _, err := v.max()
	if err != nil {
		return err
	}
	l.row, l.best = logits, best
	l.norm = ln(v.sum(best, 1, nil))
	l.top = l.top[:0]
	if n = min(n, len(logits)); n > 0 {
		l.top, err = v.top(l.top, n)
	}
	return err
}

func (l *Logprobs) value(x float32) float64 { return float64(x) - float64(l.best) - l.norm }

// Of returns the value of one token, or -Inf for a token that the model
// excludes.
func (l *Logprobs) Of(t llm.Token) (float64, error) {
	if t < 0 || int(t) >= len(l.row) {
		return 0, fmt.Errorf("%w: no token %d among %d", ErrLogits, t, len(l.row))
	}
	return l.value(l.row[t]), nil
}

// Top appends the most likely tokens in descending order.
func (l *Logprobs) Top(dst []Logprob) []Logprob {
	for _, c := range l.top {
		dst = append(dst, Logprob{c.id, l.value(c.logit)})
	}
	return dst
}
