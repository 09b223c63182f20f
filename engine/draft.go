package engine

import (
	"godwit/engine/draft"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// NGram is a value for Options.Drafter. Its drafters search the conversation and the
// request's prediction for the newest tokens and propose the tokens that followed them.
func NGram(prediction []llm.Token) sched.Drafter {
	g := new(draft.NGram)
	g.Predict(prediction)
	return g
}

// drafter returns a drafter for a request.
func (e *Engine) drafter(r *Request) (sched.Drafter, error) {
	if e.draft != nil {
		return e.draft.drafter(r), nil
	}
	if e.p.Options.Drafter == nil {
		return nil, nil
	}
	var prediction []llm.Token
	if r.Prediction != "" {
		tok, err := e.model.Tokenizer()
		if err != nil {
			return nil, err
		}
		prediction = tok.EncodeText(r.Prediction, false, false)
	}
	return e.p.Options.Drafter(prediction), nil
}
