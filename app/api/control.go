package api

import (
	"net/http"
	"sync"

	"godwit/app/api/openai"
	"godwit/app/api/wire"
	"godwit/engine"
)

// controls are the running answers that a client can change, by id.
type controls struct {
	mu   sync.Mutex
	byID map[string]*engine.Control
}

// controlled is a call that can be changed while it runs.
type controlled interface{ ControlID() string }

// add makes a call controllable until done is called. Other calls get no control.
func (c *controls) add(call wire.Call) (control *engine.Control, done func()) {
	named, ok := call.(controlled)
	if !ok {
		return nil, func() {}
	}
	id := named.ControlID()
	control = &engine.Control{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = map[string]*engine.Control{}
	}
	c.byID[id] = control
	return control, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.byID, id)
	}
}

// control answers POST /v1/chat/completions/control.
func (s *Server) control(w http.ResponseWriter, r *http.Request) error {
	var c openai.Control
	if err := s.read(w, r, &c); err != nil {
		return err
	}
	s.controls.mu.Lock()
	running := s.controls.byID[c.ID]
	s.controls.mu.Unlock()
	if running == nil {
		e := wire.Fault(http.StatusNotFound, wire.NotFound, "no running chat completion has the id %.64q", c.ID)
		e.Param = "id"
		return e
	}
	running.EndReasoning()
	writeJSON(w, http.StatusOK, openai.Controlled{ID: c.ID, Action: c.Action, Success: true})
	return nil
}
