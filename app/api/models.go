package api

import (
	"net/http"

	"godwit/app/api/openai"
	"godwit/app/pool"
)

// openaiModels answers GET /v1/models.
func (s *Server) openaiModels(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.pool.Models()
	if err != nil {
		return err
	}
	out := openai.ModelList{Object: "list", Data: []openai.ModelInfo{}, Models: []openai.ModelName{}}
	for i := range list {
		m := s.openaiInfo(&list[i])
		out.Data = append(out.Data, m)
		out.Models = append(out.Models, openai.ModelName{Name: m.ID, Model: m.ID, Type: "model", Capabilities: m.Capabilities, Context: m.Context})
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// openaiModel answers GET /v1/models/{id}.
func (s *Server) openaiModel(w http.ResponseWriter, r *http.Request) error {
	m, err := s.named(r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s.openaiInfo(&m))
	return nil
}

// named is the model of exactly that name. Asking for a model's description
// is about that model, also where one model answers to every name.
func (s *Server) named(name string) (pool.Model, error) {
	m, err := s.pool.Named(name)
	if err != nil {
		return pool.Model{}, err
	}
	return pool.Model{Model: m, Standing: s.pool.Standing(m.Path)}, nil
}

func (s *Server) openaiInfo(m *pool.Model) openai.ModelInfo {
	created := s.started.Unix()
	if !m.Added.IsZero() {
		created = m.Added.Unix()
	}
	size := m.Standing.Context
	if size == 0 {
		size = m.Info.Context
	}
	return openai.ModelInfo{
		Context: size, Window: size, Capabilities: capabilities(&m.Model),
		ID: m.Name, Object: "model", Created: created, OwnedBy: m.Publisher(), State: string(m.State),
		Meta: openai.ModelMeta{
			Arch: m.Arch, Quant: m.Quant, Parameters: m.Parameters, Size: m.Size, Context: m.Info.Context,
			Loaded: m.Standing.Context, Vocab: m.Vocab, Embedding: m.Embedding,
		},
	}
}
