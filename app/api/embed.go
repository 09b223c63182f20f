package api

import (
	"context"
	"math"
	"net/http"
	"time"

	"godwit/app/api/ollama"
	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/pool"
	"godwit/engine"
	"godwit/engine/llm"
)

// unit makes a row as long as 1, as OpenAI's are; a row of zeros stays.
func unit(row []float32) []float32 {
	var sum float64
	for _, x := range row {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return row
	}
	by := 1 / math.Sqrt(sum)
	for i, x := range row {
		row[i] = float32(float64(x) * by)
	}
	return row
}

// embedRows computes the embeddings of some inputs.
func embedRows(ctx context.Context, e *engine.Engine, inputs [][]llm.Token) (rows [][]float32, tokens int, err error) {
	defer func() { tallyOf(ctx).add(tokens, 0, 0) }()
	for _, in := range inputs {
		row, err := e.Embed(ctx, in)
		if err != nil {
			return nil, 0, err
		}
		rows, tokens = append(rows, unit(row)), tokens+len(in)
	}
	return rows, tokens, nil
}

// embeddings answers POST /v1/embeddings.
func (s *Server) embeddings(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	q, err := openai.ParseEmbedding(body)
	if err != nil {
		return err
	}
	return s.with(r, q.Model, func(ctx context.Context, l *pool.Lease) error {
		t, err := l.Engine.Tokenizer()
		if err != nil {
			return err
		}
		inputs, err := q.Tokens(t, l.Engine.Config().Vocab, l.Engine.Context())
		if err != nil {
			return err
		}
		rows, tokens, err := embedRows(ctx, l.Engine, inputs)
		if err != nil {
			return err
		}
		out, err := q.Answer(l.Model.Name, rows, tokens)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, out)
		return nil
	})
}

// embed answers POST /api/embed.
func (s *Server) embed(w http.ResponseWriter, r *http.Request) error {
	var q ollama.EmbedRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	var input wire.Strings
	if err := input.DecodeWire(q.Input, "input"); err != nil {
		return err
	}
	if wire.Kind(q.Input) == "a string" && input[0] == "" {
		input = nil // to Ollama nothing: the model is loaded
	}
	whole := q.Truncate != nil && !*q.Truncate
	start := time.Now()
	return s.embedTexts(r, q.Model, q.KeepAlive.Span, input, whole, func(l *pool.Lease, rows [][]float32, tokens int) error {
		for _, row := range rows {
			unit(row)
			if q.Dimensions != nil && *q.Dimensions != len(row) {
				return wire.Bad("dimensions", "%d is not supported, only %d", *q.Dimensions, len(row))
			}
		}
		writeJSON(w, http.StatusOK, ollama.Embeddings{
			Model: q.Model, Rows: rows, Total: int64(time.Since(start)), Load: int64(l.Load), Prompt: tokens,
		})
		return nil
	})
}

// embedOne answers POST /api/embeddings.
func (s *Server) embedOne(w http.ResponseWriter, r *http.Request) error {
	var q ollama.EmbeddingRequest
	if err := s.read(w, r, &q); err != nil {
		return err
	}
	return s.embedTexts(r, q.Model, q.KeepAlive.Span, []string{q.Prompt}, false, func(_ *pool.Lease, rows [][]float32, _ int) error {
		writeJSON(w, http.StatusOK, ollama.Embedding{Row: rows[0]})
		return nil
	})
}

// embedTexts computes the embeddings of texts. Those that are too long are cut,
// or with whole refused.
func (s *Server) embedTexts(r *http.Request, model string, keep *time.Duration, texts []string, whole bool, do func(l *pool.Lease, rows [][]float32, tokens int) error) error {
	ctx, cancel := s.context(r)
	defer cancel()
	l, err := s.acquire(ctx, model, keep)
	if err != nil {
		return err
	}
	defer l.Release()
	tallyOf(ctx).use(l.Model.Name)
	t, err := l.Engine.Tokenizer()
	if err != nil {
		return err
	}
	rows := [][]float32{}
	tokens := 0
	for _, text := range texts {
		ids := t.EncodeText(text, true, false)
		if n := len(ids); n > l.Engine.Context() {
			if whole {
				return wire.TooLong("input", n, l.Engine.Context())
			}
			ids = ids[:l.Engine.Context()]
		}
		if len(ids) == 0 {
			rows = append(rows, []float32{})
			continue
		}
		row, err := l.Engine.Embed(ctx, ids)
		if err != nil {
			return err
		}
		rows, tokens = append(rows, row), tokens+len(ids)
	}
	tallyOf(ctx).add(tokens, 0, 0)
	return do(l, rows, tokens)
}
