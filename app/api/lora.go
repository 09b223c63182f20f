package api

import (
	"encoding/json"
	"net/http"
	"sync"

	"godwit/app/api/llamaserver"
	"godwit/app/api/wire"
	"godwit/engine"
)

// scales are the scales of adapters that clients have set, by path.
type scales struct {
	mu sync.Mutex
	by map[string]float32
}

// apply returns the adapters with these scales; those of scale 0 are left out.
func (c *scales) apply(list []engine.LoRA) []engine.LoRA {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		return list
	}
	out := []engine.LoRA{}
	for _, l := range list {
		if x, ok := c.by[l.Path]; ok {
			l.Scale = x
			if x == 0 {
				continue
			}
		}
		out = append(out, l)
	}
	return out
}

// adapters lists the adapters with the scales in use.
func (s *Server) adapters() ([]llamaserver.Adapter, error) {
	o, err := s.current()
	if err != nil {
		return nil, err
	}
	s.scales.mu.Lock()
	defer s.scales.mu.Unlock()
	out := []llamaserver.Adapter{}
	for i, l := range o.LoRA {
		scale := l.Scale
		if scale == 0 {
			scale = 1
		}
		if x, ok := s.scales.by[l.Path]; ok {
			scale = x
		}
		out = append(out, llamaserver.Adapter{ID: i, Path: l.Path, Scale: scale})
	}
	return out, nil
}

// loras answers GET /lora-adapters.
func (s *Server) loras(w http.ResponseWriter, _ *http.Request) error {
	list, err := s.adapters()
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, list)
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
	s.scales.mu.Lock()
	s.scales.by = by
	s.scales.mu.Unlock()
	s.pool.renew()
	writeJSON(w, http.StatusOK, llamaserver.Done{Success: true})
	return nil
}
