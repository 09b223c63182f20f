package engine

import (
	"context"
	"fmt"

	"godwit/engine/llm"
)

// Logits returns the logits at each position, [len(positions), vocab], in the
// given order. With step, the tokens are read one at a time.
func (e *Engine) Logits(ctx context.Context, tokens []llm.Token, positions []int, step bool) ([]float32, error) {
	where, err := places(positions, len(tokens))
	if err != nil {
		return nil, err
	}
	vocab := e.p.width()
	out := make([]float32, len(positions)*vocab)
	want := func(p int) bool { return where[p] != nil }
	err = e.EachLogits(ctx, tokens, want, step, func(p int, row []float32) error {
		for _, i := range where[p] {
			copy(out[i*vocab:], row)
		}
		return nil
	})
	return out, err
}

// places maps each position to its indices in the list.
func places(positions []int, tokens int) (map[int][]int, error) {
	where := make(map[int][]int)
	for i, p := range positions {
		if p < 0 || p >= tokens {
			return nil, fmt.Errorf("position %d is outside the text of %d tokens", p, tokens)
		}
		where[p] = append(where[p], i)
	}
	return where, nil
}
