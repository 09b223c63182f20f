package api

import (
	"time"

	"godwit/app/api/wire"
	"godwit/engine"
)

// progress follows the events of an answer, so that an interrupted answer also
// counts the tokens that it used.
type progress struct {
	s         *Server
	t         *wire.Tally
	begun     bool
	read      int // prompt tokens, including reused ones
	total     int // tokens of the prompt
	cached    int
	generated int
	ended     bool
}

// see processes an event. It returns an error if the event is beyond a limit of the
// API key.
func (p *progress) see(ev *engine.Event) error {
	switch ev.Kind {
	case engine.Prefill:
		cached := 0
		if !p.begun {
			p.begun, cached = true, ev.Done
		}
		more := max(ev.Done-p.read, 0)
		p.read, p.cached, p.total = p.read+more, p.cached+cached, ev.Total
		return p.t.Add(more, cached, 0)
	case engine.End:
		p.ended = true
		r := ev.Result
		p.s.count(r)
		return p.t.Add(r.Prompt-p.read, r.Cached-p.cached, r.Completion-p.generated)
	default:
		more := max(p.total-p.read, 0) // the last step of a prompt has no event of its own
		p.read += more
		p.generated += len(ev.IDs)
		return p.t.Add(more, 0, len(ev.IDs))
	}
}

// close counts an answer that did not finish.
func (p *progress) close() {
	if p.ended {
		return
	}
	c := &p.s.counters
	c.prompt.Add(p.read)
	c.cached.Add(p.cached)
	c.generated.Add(p.generated)
}

// count adds a finished generation to the counters.
func (s *Server) count(r *engine.Result) {
	c := &s.counters
	c.prompt.Add(r.Prompt)
	c.cached.Add(r.Cached)
	c.generated.Add(r.Completion)
	c.drafted.Add(r.Drafted)
	c.accepted.Add(r.Accepted)
	c.promptSeconds.Add(r.Prefill.Seconds())
	c.decodeSeconds.Add(r.Decode.Seconds())
	c.first.Update((r.Waited + r.Prefill).Seconds())
	s.log.Debug("answered", "tokens", r.Completion, "ms", (r.Prefill + r.Decode).Round(time.Millisecond).Milliseconds())
}
