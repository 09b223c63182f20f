package openai

import (
	"context"
	"net/http"
	"time"

	"godwit/app/api/wire"
	"godwit/app/pool"
)

// library answers the endpoints for models and embeddings.
type library struct {
	wire.Service
	shelf   wire.Shelf
	other   Listed
	started time.Time // creation time of models that have none
}

// Listed answers the two model endpoints for clients that only read another
// dialect's form. It reports whether it has answered. list holds all models, or
// only the model in the path.
type Listed func(w http.ResponseWriter, r *http.Request, list []pool.Model, all bool, started time.Time) (done bool, err error)

// libraryRoutes lists the endpoints for models and embeddings.
func libraryRoutes(svc wire.Service, shelf wire.Shelf, other Listed) []wire.Route {
	l := library{svc, shelf, other, time.Now()}
	return []wire.Route{
		wire.On("GET", "/v1/models", "List the models with their state.", l.models, nil, ModelList{}),
		wire.On("GET", "/v1/models/{id...}", "Describe a model.", l.model, nil, ModelInfo{}),
		wire.On("GET", "/models", "Same as /v1/models.", l.models, nil, ModelList{}),
		wire.On("POST", "/v1/embeddings", "Compute embeddings.", EmbeddingsOf(svc), EmbeddingRequest{}, Embeddings{}),
	}
}

// models answers GET /v1/models.
func (l library) models(w http.ResponseWriter, r *http.Request) error {
	list, err := l.shelf.Models()
	if err != nil {
		return err
	}
	if done, err := l.other(w, r, list, true, l.started); done || err != nil {
		return err
	}
	out := ModelList{Object: "list", Data: []ModelInfo{}, Models: []ModelName{}}
	for i := range list {
		m := l.info(&list[i])
		out.Data = append(out.Data, m)
		out.Models = append(out.Models, ModelName{Name: m.ID, Model: m.ID, Type: "model", Capabilities: m.Capabilities, Context: m.Context})
	}
	wire.WriteJSON(w, http.StatusOK, out)
	return nil
}

// model answers GET /v1/models/{id}.
func (l library) model(w http.ResponseWriter, r *http.Request) error {
	m, err := l.shelf.Named(r.PathValue("id"))
	if err != nil {
		return err
	}
	if done, err := l.other(w, r, []pool.Model{m}, false, l.started); done || err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, l.info(&m))
	return nil
}

func (l library) info(m *pool.Model) ModelInfo {
	created := l.started.Unix()
	if !m.Added.IsZero() {
		created = m.Added.Unix()
	}
	size := m.Standing.Context
	if size == 0 {
		size = m.Info.Context
	}
	return ModelInfo{
		Context: size, Window: size, Capabilities: wire.Capabilities(&m.Model),
		ID: m.Name, Object: "model", Created: created, OwnedBy: m.Publisher(), State: string(m.State),
		Meta: ModelMeta{
			Arch: m.Arch, Quant: m.Quant, Parameters: m.Parameters, Size: m.Size, Context: m.Info.Context,
			Loaded: m.Standing.Context, Vocab: m.Vocab, Embedding: m.Embedding,
		},
	}
}

// EmbeddingsOf answers POST /v1/embeddings.
func EmbeddingsOf(svc wire.Service) wire.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := svc.Body(w, r)
		if err != nil {
			return err
		}
		q, err := ParseEmbedding(body)
		if err != nil {
			return err
		}
		return svc.Use(r, wire.Head{Model: q.Model}, func(ctx context.Context, m *wire.Model) error {
			t, err := m.Engine.Model().Tokenizer()
			if err != nil {
				return err
			}
			inputs, err := q.Tokens(t, m.Engine.Config().Vocab, m.Engine.Context())
			if err != nil {
				return err
			}
			var rows [][]float32
			tokens := 0
			for _, in := range inputs {
				if err := wire.TallyOf(ctx).Add(len(in), 0, 0); err != nil {
					return err
				}
				row, err := m.Engine.Embed(ctx, in)
				if err != nil {
					return err
				}
				rows, tokens = append(rows, wire.Unit(row)), tokens+len(in)
			}
			out, err := q.Answer(m.Name, rows, tokens)
			if err != nil {
				return err
			}
			wire.WriteJSON(w, http.StatusOK, out)
			return nil
		})
	}
}
