package engine

import (
	"sync/atomic"

	"godwit/engine/chat"
	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

// Budget limits the reasoning of an answer. Once the budget is used up, the closing
// tag of the reasoning is inserted and the answer follows.
type Budget struct {
	Tokens  int    // maximum number of reasoning tokens; 0 ends reasoning at once, negative: no limit
	Message string // text inserted before the closing tag; may be empty
}

// Control changes an answer while it is generated. Its methods may be called
// from any goroutine.
type Control struct{ end atomic.Bool }

// EndReasoning ends the reasoning at the next token, as a used-up Budget does. It
// has no effect on an answer without reasoning.
func (c *Control) EndReasoning() { c.end.Store(true) }

// maxGrace is the maximum number of tokens by which the closing tag is delayed, so that
// the model can complete a character or tag.
const maxGrace = 16

// thinkEnd ends the reasoning of one answer.
type thinkEnd struct {
	budget  Budget
	control *Control
	closing string      // text that ends reasoning; "" if the model has none
	queue   []llm.Token // tokens left to insert
	waited  int         // tokens since reasoning should have ended
}

// newThinkEnd prepares to end the reasoning in an answer to p.
func newThinkEnd(r *Request, p *chat.Prompt) thinkEnd {
	e := thinkEnd{budget: Budget{Tokens: -1}, control: r.Control}
	if r.Budget != nil {
		e.budget = *r.Budget
	}
	if p != nil && !r.Chat.RawParts {
		e.closing = p.ReasoningEnd()
		if p.Shut {
			e.budget = Budget{}
		}
	}
	return e
}

// next returns the next token to insert, and false if there is nothing to insert.
// settled means that no character or tag is incomplete.
func (e *thinkEnd) next(t *tokenizer.Tokenizer, thinking, settled bool, thought int) (llm.Token, bool) {
	if len(e.queue) == 0 {
		if !thinking || e.closing == "" || !e.due(thought) {
			e.waited = 0
			return 0, false
		}
		if e.waited++; !settled && e.waited <= maxGrace {
			return 0, false
		}
		e.queue = t.Encode(nil, []tokenizer.Piece{{Text: e.budget.Message}, {Text: e.closing, Trusted: true}},
			tokenizer.Options{ParseSpecial: true, Joined: true})
		if len(e.queue) == 0 {
			return 0, false
		}
	}
	token := e.queue[0]
	e.queue = e.queue[1:]
	return token, true
}

func (e *thinkEnd) due(thought int) bool {
	return e.budget.Tokens >= 0 && thought >= e.budget.Tokens || e.control != nil && e.control.end.Load()
}
