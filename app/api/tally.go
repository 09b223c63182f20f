package api

import (
	"context"
	"sync"

	"godwit/engine"
)

// tallyKey finds the tally of a request in its context.
type tallyKey struct{}

// tally is what a request has used so far, for the request log.
type tally struct {
	mu                        sync.Mutex
	model                     string
	prompt, cached, generated int
}

// tallyOf returns the tally of a request, or one that nobody reads.
func tallyOf(ctx context.Context) *tally {
	if t, ok := ctx.Value(tallyKey{}).(*tally); ok {
		return t
	}
	return &tally{}
}

func (t *tally) use(model string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.model = model
}

func (t *tally) add(prompt, cached, generated int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.prompt, t.cached, t.generated = t.prompt+prompt, t.cached+cached, t.generated+generated
}

// attrs are the attributes of the log line of a request that used a model.
func (t *tally) attrs() []any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.model == "" {
		return nil
	}
	return []any{"model", t.model, "prompt", t.prompt, "cached", t.cached, "tokens", t.generated}
}

// progress follows the events of one answer, so that an answer which is broken
// off counts with what it has used.
type progress struct {
	s         *Server
	t         *tally
	begun     bool
	read      int // prompt tokens, reused ones among them
	cached    int
	generated int
	ended     bool
}

// see takes an event in.
func (p *progress) see(ev *engine.Event) {
	switch ev.Kind {
	case engine.Prefill:
		cached := 0
		if !p.begun {
			p.begun, cached = true, ev.Done
		}
		more := max(ev.Done-p.read, 0)
		p.read, p.cached = p.read+more, p.cached+cached
		p.t.add(more, cached, 0)
	case engine.End:
		p.ended = true
		r := ev.Result
		p.t.add(r.Prompt-p.read, r.Cached-p.cached, r.Completion-p.generated)
		p.s.count(r)
	default:
		p.generated += len(ev.IDs)
		p.t.add(0, 0, len(ev.IDs))
	}
}

// close counts an answer that did not reach its end.
func (p *progress) close() {
	if p.ended {
		return
	}
	c := &p.s.counters
	c.prompt.Add(p.read)
	c.cached.Add(p.cached)
	c.generated.Add(p.generated)
}
