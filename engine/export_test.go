package engine

import (
	"testing"

	"godwit/engine/llm"
	"godwit/engine/sched"
)

// Rows reads a prompt and generates n tokens greedily; it returns the logits of
// each, and what the job counted. fresh computes the whole prompt.
func (e *Engine) Rows(t testing.TB, prompt []llm.Token, n int, fresh bool) (rows []float32, tokens []llm.Token, stats sched.Stats) {
	t.Helper()
	done := make(chan error, 1)
	err := e.sched.Submit(t.Context(), sched.Job{
		Prompt: prompt, Slot: -1, Keep: -1, Fresh: fresh,
		Next: func(row []float32) (llm.Token, bool, error) {
			rows = append(rows, row...)
			best := 0
			for i, v := range row {
				if v > row[best] {
					best = i
				}
			}
			tokens = append(tokens, llm.Token(best))
			n--
			return llm.Token(best), n > 0, nil
		},
		Done: func(_ sched.Finish, st sched.Stats, err error) { stats = st; done <- err },
	})
	if err == nil {
		err = <-done
	}
	if err != nil {
		t.Fatal(err)
	}
	return rows, tokens, stats
}
