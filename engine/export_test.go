package engine

import (
	"context"
	"sync"
	"testing"
	"time"

	"godwit/engine/llm"
	"godwit/engine/sched"
)

// Rows reads a prompt and generates n tokens greedily. It returns the logits of
// each token and the job's counters. fresh computes the whole prompt.
func (e *Engine) Rows(t testing.TB, prompt []llm.Token, n int, fresh bool) (rows []float32, tokens []llm.Token, stats sched.Stats) {
	t.Helper()
	return e.RowsWith(t, prompt, nil, n, fresh)
}

// RowsWith is Rows of a prompt whose messages end at the given positions.
func (e *Engine) RowsWith(t testing.TB, prompt []llm.Token, borders []int, n int, fresh bool) (rows []float32, tokens []llm.Token, stats sched.Stats) {
	t.Helper()
	done := make(chan error, 1)
	err := e.sched.Submit(t.Context(), sched.Job{
		Prompt: prompt, Borders: borders, Slot: -1, Keep: -1, Fresh: fresh,
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

// Beside runs f while an answer to a prompt is generated.
func (e *Engine) Beside(t testing.TB, prompt []llm.Token, f func()) {
	t.Helper()
	begun, done := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := sync.OnceFunc(func() { close(begun) })
	err := e.sched.Submit(ctx, sched.Job{
		Prompt: prompt, Slot: -1, Keep: -1, Fresh: true,
		Next: func([]float32) (llm.Token, bool, error) {
			first()
			time.Sleep(time.Millisecond) // otherwise a small model would fill the context in the meantime
			return prompt[0], true, nil
		},
		Done: func(_ sched.Finish, _ sched.Stats, err error) { first(); done <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	f()
	select {
	case err := <-done:
		t.Fatalf("the answer beside it ended: %v", err)
	default:
	}
	cancel()
	<-done
}

// Submit gives the engine a job.
func (e *Engine) Submit(ctx context.Context, j sched.Job) error { return e.sched.Submit(ctx, j) }

// Roles returns the role of each message of a prompt.
func (m *Model) Roles(t testing.TB, text string) []string {
	t.Helper()
	tok, err := m.Tokenizer()
	if err != nil {
		t.Fatal(err)
	}
	prompt := tok.EncodeText(text, false, true)
	return roles(tok, prompt, borders(tok, prompt))
}

// DraftFreely makes the draft model propose as many tokens as possible.
func (e *Engine) DraftFreely() { e.draft.costs.Free = true }

// DraftTokens returns the number of tokens in each slot of the draft model.
func (e *Engine) DraftTokens(t testing.TB) (list []int) {
	t.Helper()
	slots, err := e.draft.Slots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slots {
		list = append(list, s.Tokens)
	}
	return list
}
