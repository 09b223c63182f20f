package api

import (
	"net/http"
	"strings"

	"godwit/app/api/openai"
)

// openaiModels answers GET /v1/models.
func (s *Server) openaiModels(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.pool.status()
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
func (s *Server) named(name string) (status, error) {
	list, err := s.pool.list()
	if err != nil {
		return status{}, err
	}
	m, err := lookup(list, name)
	if err != nil {
		return status{}, err
	}
	return s.pool.describe(m), nil
}

func (s *Server) openaiInfo(m *status) openai.ModelInfo {
	created := s.started.Unix()
	if !m.Added.IsZero() {
		created = m.Added.Unix()
	}
	size := m.Context
	if size == 0 {
		size = m.Info.Context
	}
	return openai.ModelInfo{
		Context: size, Window: size, Capabilities: capabilities(&m.Model),
		ID: m.Name, Object: "model", Created: created, OwnedBy: owner(m), State: string(m.State),
		Meta: openai.ModelMeta{
			Arch: m.Arch, Quant: m.Quant, Parameters: m.Parameters, Size: m.Size, Context: m.Info.Context,
			Loaded: m.Context, Vocab: m.Vocab, Embedding: m.Embedding,
		},
	}
}

// owner is the publisher of a model that came from a hub.
func owner(m *status) string {
	if name, _, ok := strings.Cut(m.Ref, "/"); ok {
		return name
	}
	return "local"
}
