package api

import (
	"encoding/json"
	"net/http"

	"godwit/app/api/llamaserver"
	"godwit/app/api/wire"
)

// adapters lists the adapters with the scales in use.
func (s *Server) adapters() ([]llamaserver.Adapter, error) {
	list, err := s.pool.Adapters()
	out := []llamaserver.Adapter{}
	for i, l := range list {
		out = append(out, llamaserver.Adapter{ID: i, Path: l.Path, Scale: l.Scale})
	}
	return out, err
}

// loras answers GET /lora-adapters.
func (s *Server) loras(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.adapters()
	if err != nil {
		return err
	}
	wire.WriteJSON(w, http.StatusOK, list)
	return nil
}

// setLoras answers POST /lora-adapters: the body is a list, and adapters that it
// lacks are switched off. Models are loaded again once their users are gone.
func (s *Server) setLoras(w http.ResponseWriter, r *http.Request) error {
	body, err := s.body(w, r)
	if err != nil {
		return err
	}
	list, err := s.adapters()
	if err != nil {
		return err
	}
	var items []json.RawMessage
	if json.Unmarshal(body, &items) != nil {
		return wire.Bad("", "the body is %s, want a list of {\"id\": 0, \"scale\": 1}", wire.Kind(body))
	}
	if len(items) > 256 {
		return wire.Bad("", "%d entries, at most 256", len(items))
	}
	by := map[string]float32{}
	for _, a := range list {
		by[a.Path] = 0
	}
	for _, raw := range items {
		var q llamaserver.AdapterScale
		if err := wire.Decode(raw, &q); err != nil {
			return err
		}
		if *q.ID >= len(list) {
			return wire.Bad("id", "there is no adapter %d; the server was started with %d (--lora)", *q.ID, len(list))
		}
		by[list[*q.ID].Path] = float32(*q.Scale)
	}
	s.pool.SetAdapters(by)
	wire.WriteJSON(w, http.StatusOK, llamaserver.Done{Success: true})
	return nil
}
