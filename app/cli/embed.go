package cli

import (
	"errors"
	"io"
	"strings"

	"godwit/engine"
	"godwit/engine/llm"
)

type embedCmd struct {
	modelArg
	loadFlags
	Tokens ids `placeholder:"1,2,3" help:"Token ids, used unchanged, instead of text on standard input."`
}

// Help returns the last paragraph of the command's help.
func (c *embedCmd) Help() string {
	return "The text is read from standard input. A reranker takes the query on the first line and the document after it. " +
		"The vector is a JSON list of numbers, pooled as the model specifies and not normalised. The score is one number."
}

// Run prints the pooled vector of a text, or a reranker's score.
func (c *embedCmd) Run(r *run) error {
	tokens := c.Tokens.tokens()
	var text string
	if len(tokens) == 0 {
		data, err := io.ReadAll(io.LimitReader(r.in, maxText+1))
		if err != nil {
			return err
		}
		if len(data) > maxText {
			return errors.New("the text is longer than 64 MiB")
		}
		text = strings.TrimRight(string(data), "\r\n")
		if text == "" {
			return usage{errors.New("expected a text on standard input, or --tokens")}
		}
	}
	c.Parallel = 1
	e, err := r.openFor(r.ctx, c.Model, &c.loadFlags, max(len(tokens), 1))
	if err != nil {
		return err
	}
	defer e.Close()
	if e.Config().Rank && len(tokens) == 0 {
		query, document, _ := strings.Cut(text, "\n")
		score, _, err := e.Rank(r.ctx, strings.TrimRight(query, "\r"), document)
		if err != nil {
			return err
		}
		return r.json(score)
	}
	return c.embed(r, e, tokens, text)
}

// maxText limits how much is read from standard input.
const maxText = 64 << 20

// embed prints the row of a text or of tokens.
func (c *embedCmd) embed(r *run, e *engine.Engine, tokens []llm.Token, text string) error {
	if len(tokens) == 0 {
		t, err := e.Model().Tokenizer()
		if err != nil {
			return err
		}
		tokens = t.EncodeText(text, true, false)
	}
	row, err := e.Embed(r.ctx, tokens)
	if err != nil {
		return err
	}
	if e.Config().Rank && len(row) == 1 {
		return r.json(row[0])
	}
	return r.json(row)
}
