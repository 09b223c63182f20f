package ollama

import (
	"context"
	"net/http"
	"time"

	"godwit/app/api/wire"
)

// embed answers POST /api/embed.
func (d dialect) embed(w http.ResponseWriter, r *http.Request) error {
	var q EmbedRequest
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	var input wire.Strings
	if err := input.DecodeWire(q.Input, "input"); err != nil {
		return err
	}
	if wire.Kind(q.Input) == "a string" && input[0] == "" {
		input = nil // an empty input only loads the model, as in Ollama
	}
	whole := q.Truncate != nil && !*q.Truncate
	start := time.Now()
	return d.embedTexts(r, q.Model, q.KeepAlive.Span, input, whole, func(m *wire.Model, rows [][]float32, tokens int) error {
		for _, row := range rows {
			wire.Unit(row)
			if q.Dimensions != nil && *q.Dimensions != len(row) {
				return wire.Bad("dimensions", "%d is not supported; the model has %d dimensions", *q.Dimensions, len(row))
			}
		}
		wire.WriteJSON(w, http.StatusOK, Embeddings{
			Model: q.Model, Rows: rows, Total: int64(time.Since(start)), Load: int64(m.Load), Prompt: tokens,
		})
		return nil
	})
}

// embedOne answers POST /api/embeddings.
func (d dialect) embedOne(w http.ResponseWriter, r *http.Request) error {
	var q EmbeddingRequest
	if err := wire.Read(d, w, r, &q); err != nil {
		return err
	}
	return d.embedTexts(r, q.Model, q.KeepAlive.Span, []string{q.Prompt}, false, func(_ *wire.Model, rows [][]float32, _ int) error {
		wire.WriteJSON(w, http.StatusOK, Embedding{Row: rows[0]})
		return nil
	})
}

// embedTexts computes the embeddings of texts. It truncates texts that are too
// long, or rejects them if whole is set.
func (d dialect) embedTexts(r *http.Request, model string, keep *time.Duration, texts []string, whole bool, do func(m *wire.Model, rows [][]float32, tokens int) error) error {
	return d.Use(r, wire.Head{Model: model, KeepAlive: keep}, func(ctx context.Context, m *wire.Model) error {
		t, err := m.Engine.Model().Tokenizer()
		if err != nil {
			return err
		}
		rows := [][]float32{}
		tokens := 0
		for _, text := range texts {
			ids := t.EncodeText(text, true, false)
			if n := len(ids); n > m.Engine.Context() {
				if whole {
					return wire.TooLong("input", n, m.Engine.Context())
				}
				ids = ids[:m.Engine.Context()]
			}
			if len(ids) == 0 {
				rows = append(rows, []float32{})
				continue
			}
			if err := wire.TallyOf(ctx).Add(len(ids), 0, 0); err != nil {
				return err
			}
			row, err := m.Engine.Embed(ctx, ids)
			if err != nil {
				return err
			}
			rows, tokens = append(rows, row), tokens+len(ids)
		}
		return do(m, rows, tokens)
	})
}
