package cli

import (
	"fmt"
	"io"

	"godwit/engine"
	"godwit/engine/llm"
	"godwit/engine/tokenizer"
)

// tokenizer opens only a model's vocabulary.
func (r *run) tokenizer(model string) (*tokenizer.Tokenizer, func(), error) {
	path, err := r.find(model)
	if err != nil {
		return nil, nil, err
	}
	m, err := engine.OpenFile(path)
	if err != nil {
		return nil, nil, err
	}
	t, err := tokenizer.New(m.KV)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, func() { m.Close() }, nil
}

type tokenizeCmd struct {
	modelArg
	Special bool `help:"Parse special tokens in the text."`
	NoBOS   bool `name:"no-bos" help:"Add no special tokens."`
}

// Run writes the token ids of standard input as one JSON array.
func (c *tokenizeCmd) Run(r *run) error {
	t, done, err := r.tokenizer(c.Model)
	if err != nil {
		return err
	}
	defer done()
	text, err := io.ReadAll(r.in)
	if err != nil {
		return err
	}
	list := t.EncodeText(string(text), !c.NoBOS, c.Special)
	if list == nil {
		list = []llm.Token{}
	}
	return r.json(list)
}

type detokenizeCmd struct {
	modelArg
	IDs     ids  `arg:"" name:"ids" placeholder:"1,2,3" help:"Token ids."`
	Special bool `default:"true" negatable:"" help:"Print control tokens. Default: on."`
}

// Run writes the text of token ids.
func (c *detokenizeCmd) Run(r *run) error {
	t, done, err := r.tokenizer(c.Model)
	if err != nil {
		return err
	}
	defer done()
	for _, id := range c.IDs {
		if id < 0 || id >= t.VocabSize() {
			return fmt.Errorf("%d is not a token; the vocabulary has %d tokens", id, t.VocabSize())
		}
	}
	_, err = r.out.WriteString(r.shown(string(t.Decode(c.IDs.tokens(), c.Special))))
	return err
}
