package cli

import (
	"fmt"

	"godwit/app/config"
	"godwit/engine"
	"godwit/engine/llm"
	"godwit/engine/sample"
)

// sampleFlags are the sampling flags. Without any, sampling is greedy.
type sampleFlags struct {
	Temp   float64 `name:"temp" placeholder:"T" default:"0" help:"Randomness. 0: always the likeliest token."`
	TopK   int     `name:"top-k" placeholder:"N" default:"0" help:"Sample from the N likeliest tokens. 0: from all."`
	TopP   float64 `name:"top-p" placeholder:"P" default:"1" help:"Sample from the likeliest tokens with a total probability of P."`
	MinP   float64 `name:"min-p" placeholder:"P" default:"0" help:"Drop tokens less likely than P times the likeliest."`
	Repeat float64 `name:"repeat-penalty" placeholder:"X" default:"1" help:"Divide the logits of recent tokens. 1: off."`
	Seed   int64   `name:"seed" short:"s" placeholder:"N" default:"-1" help:"The same seed gives the same answer. -1: another each time."`
}

// check compares the flags with the bounds of the settings.
func (f *sampleFlags) check() error {
	for _, c := range []struct {
		flag string
		x    float64
	}{{"temp", f.Temp}, {"top-k", float64(f.TopK)}, {"top-p", f.TopP}, {"min-p", f.MinP}, {"seed", float64(f.Seed)}} {
		if err := config.Check(c.flag, c.x); err != nil {
			return err
		}
	}
	if !(f.Repeat > 0 && f.Repeat <= 10) {
		return fmt.Errorf("--repeat-penalty: %w: %v; want a number above 0 and at most 10", config.ErrValue, f.Repeat)
	}
	return nil
}

func (f *sampleFlags) params() sample.Params {
	p := sample.Params{Temperature: f.Temp, TopK: f.TopK, TopP: f.TopP, MinP: f.MinP, RepeatPenalty: f.Repeat, Seed: f.Seed}
	if f.Repeat != 1 {
		p.RepeatLastN = sample.Defaults().RepeatLastN
	}
	return p
}

type generateCmd struct {
	modelArg
	loadFlags
	sampleFlags
	Tokens    ids  `required:"" placeholder:"1,2,3" help:"Token ids to continue, used unchanged."`
	Predict   int  `short:"n" name:"predict" default:"32" help:"Tokens to generate."`
	IgnoreEOS bool `name:"ignore-eos" help:"Continue after end-of-generation tokens."`
	JSON      bool `name:"json" help:"Write {tokens, text, finish_reason}."`
}

// Run continues a text, greedily by default.
func (c *generateCmd) Run(r *run) error {
	if err := c.check(); err != nil {
		return usage{err}
	}
	if c.Predict < 1 {
		return usage{fmt.Errorf("--predict: %w: %d; want 1 or more", config.ErrValue, c.Predict)}
	}
	if len(c.Tokens) == 0 {
		return usage{fmt.Errorf("--tokens is empty")}
	}
	c.Parallel = 1
	e, err := r.open(r.ctx, c.Model, &c.loadFlags)
	if err != nil {
		return err
	}
	defer e.Close()
	text, res, err := e.Answer(r.ctx, engine.Request{
		Tokens: c.Tokens.tokens(), Sampling: c.params(), MaxTokens: c.Predict, IgnoreEOG: c.IgnoreEOS,
	})
	if err != nil {
		return err
	}
	if !c.JSON {
		_, err = fmt.Fprintln(r.out, r.shown(text))
		return err
	}
	tokens := res.Tokens
	if tokens == nil {
		tokens = []llm.Token{}
	}
	return r.json(struct {
		Tokens []llm.Token `json:"tokens"`
		Text   string      `json:"text"`
		Finish string      `json:"finish_reason"`
	}{tokens, text, res.Finish})
}
