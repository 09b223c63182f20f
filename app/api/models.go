package api

import (
	"net/http"
	"strconv"
	"time"

	"godwit/app/api/anthropic"
	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/app/pool"
)

// openaiModels answers GET /v1/models.
func (s *Server) openaiModels(w http.ResponseWriter, r *http.Request) error {
	list, err := s.pool.Models()
	if err != nil {
		return err
	}
	if ofAnthropic(r) {
		return s.anthropicModels(w, r, list)
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
	if ofAnthropic(r) {
		writeJSON(w, http.StatusOK, s.anthropicModel(&m))
		return nil
	}
	writeJSON(w, http.StatusOK, s.openaiInfo(&m))
	return nil
}

// ofAnthropic reports whether Anthropic's client asks: it names the version of its
// API, and reads no other form.
func ofAnthropic(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

func (s *Server) anthropicModel(m *pool.Model) anthropic.Model {
	o := s.openaiInfo(m)
	return anthropic.NewModel(m.Name, m.Title, time.Unix(o.Created, 0), o.Context)
}

// anthropicModels answers GET /v1/models in Anthropic's form.
func (s *Server) anthropicModels(w http.ResponseWriter, r *http.Request, list []pool.Model) error {
	limit, err := limitOf(r, 20, 1000)
	if err != nil {
		return err
	}
	all := make([]anthropic.Model, len(list))
	for i := range list {
		all[i] = s.anthropicModel(&list[i])
	}
	q := r.URL.Query()
	writeJSON(w, http.StatusOK, anthropic.Page(all, func(m *anthropic.Model) string { return m.ID }, limit, q.Get("before_id"), q.Get("after_id")))
	return nil
}

// limitOf reads the query parameter limit.
func limitOf(r *http.Request, standard, most int) (int, error) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return standard, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, wire.Bad("limit", "want a number from 1 to %d", most)
	}
	return n, nil
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
