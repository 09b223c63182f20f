package wire

import (
	"sync"

	"godwit/engine"
)

// Controlled is a call that can be changed while it is answered.
type Controlled interface {
	// ControlID returns the id under which the running answer can be controlled.
	ControlID() string
}

// Controls are the running answers that a client can change, by id.
type Controls struct {
	mu   sync.Mutex
	byID map[string]*engine.Control
}

// Add makes a call controllable until done is called. For calls that are not
// Controlled, it returns no control.
func (c *Controls) Add(call Call) (control *engine.Control, done func()) {
	named, ok := call.(Controlled)
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

// Find returns the control of a running answer, or nil if no answer has the id.
func (c *Controls) Find(id string) *engine.Control {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byID[id]
}

// Idle reports whether no answer can be controlled.
func (c *Controls) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID) == 0
}
