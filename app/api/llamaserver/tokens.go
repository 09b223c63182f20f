package llamaserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine/llm"
)

// TokenizeRequest is the body of POST /tokenize.
type TokenizeRequest struct {
	Model        string          `json:"model" most:"512"`
	Content      json.RawMessage `json:"content" need:"" doc:"A text, or a list that mixes texts and token ids."`
	AddSpecial   bool            `json:"add_special" doc:"Add BOS and similar tokens as the model requires."`
	ParseSpecial *bool           `json:"parse_special" doc:"Parse special tokens in the text; default true."`
	WithPieces   bool            `json:"with_pieces" doc:"Also return the text of each token."`
}

// Encoder turns text into tokens.
type Encoder interface {
	EncodeText(text string, addSpecial, parseSpecial bool) []llm.Token
}

// Encode returns the tokens.
func (r *TokenizeRequest) Encode(t Encoder) ([]llm.Token, error) {
	parts, err := readParts(r.Content, "content")
	if err != nil {
		return nil, err
	}
	parse := r.ParseSpecial == nil || *r.ParseSpecial
	out := []llm.Token{}
	for i, p := range parts {
		if p.tokens != nil {
			out = append(out, p.tokens...)
		} else {
			out = append(out, t.EncodeText(p.text, r.AddSpecial && i == 0, parse)...)
		}
	}
	return out, nil
}

// Tokens is the response of POST /tokenize. It holds ids, or TokenPieces.
type Tokens struct {
	Tokens any `json:"tokens"`
}

// TokenPiece is a token with its text. The text is a string, or a list of bytes if
// it is not valid UTF-8.
type TokenPiece struct {
	ID    llm.Token `json:"id"`
	Piece any       `json:"piece"`
}

// DetokenizeRequest is the body of POST /detokenize.
type DetokenizeRequest struct {
	Model  string      `json:"model" most:"512"`
	Tokens []llm.Token `json:"tokens" need:"" min:"0"`
}

// Check rejects ids that are not in the vocabulary.
func (r *DetokenizeRequest) Check(vocab int) error {
	for i, t := range r.Tokens {
		if int(t) >= vocab {
			return wire.Bad(fmt.Sprintf("tokens[%d]", i), "%d is not a token; the vocabulary has %d tokens", t, vocab)
		}
	}
	return nil
}

// Text is the answer of POST /detokenize.
type Text struct {
	Content string `json:"content"`
}

// Prompt is the answer of POST /apply-template.
type Prompt struct {
	Prompt string `json:"prompt"`
}

// InputTokens is a count of tokens.
type InputTokens struct {
	Object string `json:"object"`
	Tokens int    `json:"input_tokens"`
}

// tokenize answers POST /tokenize.
func (d *dialect) tokenize(w http.ResponseWriter, r *http.Request) error {
	var q TokenizeRequest
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	return d.Use(r, asLoaded(q.Model), func(_ context.Context, m *wire.Model) error {
		t, err := m.Engine.Model().Tokenizer()
		if err != nil {
			return err
		}
		tokens, err := q.Encode(t)
		if err != nil {
			return err
		}
		out := Tokens{Tokens: tokens}
		if q.WithPieces {
			pieces := []TokenPiece{}
			for _, id := range tokens {
				pieces = append(pieces, TokenPiece{ID: id, Piece: piece(t.AppendPiece(nil, id, true))})
			}
			out.Tokens = pieces
		}
		wire.WriteJSON(w, http.StatusOK, out)
		return nil
	})
}

// piece returns a text, or a list of its bytes if it is not valid UTF-8.
func piece(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	list := make([]int, len(b))
	for i, c := range b {
		list[i] = int(c)
	}
	return list
}

// detokenize answers POST /detokenize.
func (d *dialect) detokenize(w http.ResponseWriter, r *http.Request) error {
	var q DetokenizeRequest
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	return d.Use(r, asLoaded(q.Model), func(_ context.Context, m *wire.Model) error {
		t, err := m.Engine.Model().Tokenizer()
		if err == nil {
			err = q.Check(t.VocabSize())
		}
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, Text{Content: string(t.Decode(q.Tokens, true))})
		return nil
	})
}

// applyTemplate answers POST /apply-template.
func (d *dialect) applyTemplate(w http.ResponseWriter, r *http.Request) error {
	body, err := d.Body(w, r)
	if err != nil {
		return err
	}
	c, err := openai.ParseChat(body)
	if err != nil {
		return err
	}
	return d.Use(r, asLoaded(c.Model), func(ctx context.Context, m *wire.Model) error {
		list, err := c.Requests(m)
		if err != nil {
			return err
		}
		text, err := m.Engine.Model().ChatText(ctx, list[0].Chat)
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, Prompt{Prompt: text})
		return nil
	})
}

// countChat answers POST /v1/chat/completions/input_tokens.
func (d *dialect) countChat(w http.ResponseWriter, r *http.Request) error {
	body, err := d.Body(w, r)
	if err != nil {
		return err
	}
	c, err := openai.ParseChat(body)
	if err != nil {
		return err
	}
	return d.Use(r, c.Head(), func(ctx context.Context, m *wire.Model) error {
		list, err := c.Requests(m)
		if err != nil {
			return err
		}
		tokens, err := m.Engine.Encode(ctx, &list[0])
		if err != nil {
			return err
		}
		wire.WriteJSON(w, http.StatusOK, InputTokens{"response.input_tokens", len(tokens)})
		return nil
	})
}
