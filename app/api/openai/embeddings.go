package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"godwit/app/api/wire"
	"godwit/engine/llm"
)

// EmbeddingRequest is the body of POST /v1/embeddings.
type EmbeddingRequest struct {
	Model      string          `json:"model" most:"512" doc:"Name of the model."`
	Input      json.RawMessage `json:"input" need:"" doc:"A text, a list of token ids, or a list of either."`
	Format     string          `json:"encoding_format" enum:"float,base64"`
	Dimensions *int            `json:"dimensions" min:"1" doc:"Only the model's own size is supported."`

	prompts Inputs
}

// Inputs holds texts or lists of tokens.
type Inputs []prompt

// ReadInputs reads a text, a list of token ids, or a list of either.
func ReadInputs(raw json.RawMessage, path string) (Inputs, error) {
	list, err := readPrompts(raw, path)
	return list, err
}

// ParseEmbedding reads and checks a body.
func ParseEmbedding(body []byte) (*EmbeddingRequest, error) {
	r := &EmbeddingRequest{}
	err := wire.Decode(body, r)
	if err == nil {
		r.prompts, err = readPrompts(r.Input, "input")
	}
	return r, err
}

// Encoder turns text into tokens.
type Encoder interface {
	EncodeText(text string, addSpecial, parseSpecial bool) []llm.Token
}

// Tokens returns the inputs as tokens. No input may be empty or longer than most.
func (r *EmbeddingRequest) Tokens(t Encoder, vocab, most int) ([][]llm.Token, error) {
	return r.prompts.Tokens(t, vocab, most, "input")
}

// Tokens returns the inputs as tokens. No input may be empty or longer than most.
// field is the name of the inputs in the request.
func (in Inputs) Tokens(t Encoder, vocab, most int, field string) ([][]llm.Token, error) {
	out := make([][]llm.Token, len(in))
	for i, p := range in {
		path := fmt.Sprintf("%s[%d]", field, i)
		if out[i] = p.tokens; p.tokens == nil {
			if p.text == "" {
				return nil, wire.Bad(path, "the text is empty")
			}
			out[i] = t.EncodeText(p.text, true, false)
		}
		for _, id := range p.tokens {
			if int(id) >= vocab {
				return nil, wire.Bad(path, "%d is not a token; the vocabulary has %d tokens", id, vocab)
			}
		}
		if n := len(out[i]); n > most {
			return nil, wire.TooLong(path, n, most)
		}
	}
	return out, nil
}

// Embeddings is the answer of POST /v1/embeddings.
type Embeddings struct {
	Object string         `json:"object"`
	Data   []Embedding    `json:"data"`
	Model  string         `json:"model"`
	Usage  EmbeddingUsage `json:"usage"`
}

// Embedding is one row. Its values are a list of numbers, or base64 of their
// bytes.
type Embedding struct {
	Object string `json:"object"`
	Index  int    `json:"index"`
	Row    any    `json:"embedding"`
}

// EmbeddingUsage counts tokens.
type EmbeddingUsage struct {
	Prompt int `json:"prompt_tokens"`
	Total  int `json:"total_tokens"`
}

// Answer writes the response.
func (r *EmbeddingRequest) Answer(model string, rows [][]float32, tokens int) (*Embeddings, error) {
	out := &Embeddings{Object: "list", Data: []Embedding{}, Model: model, Usage: EmbeddingUsage{tokens, tokens}}
	for i, row := range rows {
		if r.Dimensions != nil && *r.Dimensions != len(row) {
			return nil, wire.Bad("dimensions", "%d is not supported; the model has %d dimensions", *r.Dimensions, len(row))
		}
		e := Embedding{Object: "embedding", Index: i, Row: row}
		if r.Format == "base64" {
			b := make([]byte, 0, 4*len(row))
			for _, x := range row {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			e.Row = base64.StdEncoding.EncodeToString(b)
		}
		out.Data = append(out.Data, e)
	}
	return out, nil
}
