package api

import (
	"sync"

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
