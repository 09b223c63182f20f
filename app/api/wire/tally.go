package wire

import (
	"context"
	"sync"
)

// TallyKey is the key of a request's tally in its context.
type TallyKey struct{}

// Tally counts what a request has used so far, for the request log and for the limits
// of its API key.
type Tally struct {
	Limit func(tokens int) error // returns an error for tokens beyond a limit; nil without a limit

	mu                        sync.Mutex
	model                     string
	prompt, cached, generated int
	logged                    bool // a line with the counts was written
}

// TallyOf returns the tally of a request, or a new one if the request has none.
func TallyOf(ctx context.Context) *Tally {
	if t, ok := ctx.Value(TallyKey{}).(*Tally); ok {
		return t
	}
	return &Tally{}
}

// Use sets the model of the request.
func (t *Tally) Use(model string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.model = model
}

// Add adds tokens. If they are beyond a limit, it adds none and returns the error.
func (t *Tally) Add(prompt, cached, generated int) error {
	if t.Limit != nil {
		if err := t.Limit(prompt + generated); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prompt, t.cached, t.generated = t.prompt+prompt, t.cached+cached, t.generated+generated
	return nil
}

// Attrs returns the attributes of the log line for a request that used a model. The
// counts of the next line begin at zero.
func (t *Tally) Attrs() []any {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logged = true
	if t.model == "" {
		return nil
	}
	list := []any{"model", t.model, "prompt", t.prompt, "cached", t.cached, "tokens", t.generated}
	t.prompt, t.cached, t.generated = 0, 0, 0
	return list
}

// Logged reports whether a line of the request was written.
func (t *Tally) Logged() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.logged
}
