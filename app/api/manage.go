package api

import (
	"context"
	"errors"
	"time"

	"godwit/app/hub"
	"godwit/engine"
)

// ErrBusy is the error about a model that is in use.
var ErrBusy = errors.New("the model is answering")

// Lease is a loaded model that stays loaded until Release.
type Lease struct {
	Engine *engine.Engine
	Model  hub.Model
	Load   time.Duration // spent waiting for it

	lease *lease
}

// Release gives the model back; keep-alive counts from then on.
func (l *Lease) Release() { l.lease.release() }

// Acquire loads a model where it is not loaded, and lends it. Unlike a request of
// a client, it reaches every model, also beside one that answers to all names.
// Where ctx ends first, the load goes on.
func (s *Server) Acquire(ctx context.Context, m hub.Model) (*Lease, error) {
	l, err := s.pool.lend(ctx, m, nil, 0)
	if err != nil {
		return nil, err
	}
	return &Lease{Engine: l.Engine, Model: m, Load: l.Load, lease: l}, nil
}

// Standing is where a model file stands.
type Standing struct {
	State   State
	Err     error          // of the last load
	Context int            // tokens that the loaded model may hold
	Bytes   int64          // weights and cache of the loaded model
	Until   time.Time      // when it will be unloaded; zero: never, or in use
	Options engine.Options // of the last load
}

// Standing tells where the model of a path stands.
func (s *Server) Standing(path string) Standing {
	p := s.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[path]
	if e == nil {
		return Standing{State: Unloaded}
	}
	st := Standing{State: e.state, Err: e.err, Until: e.until}
	if o, ok := s.loaded.Load(path); ok {
		st.Options = o.(engine.Options)
	}
	if e.engine != nil {
		st.Context, st.Bytes = e.engine.Context(), e.engine.KV().Bytes()+e.info.Size
	}
	return st
}

// parting is how long an unload waits for users: the client of a request that ends
// with an error, or that hangs up, may know of that before the model is let go.
const parting = time.Second

// Unload unloads the model of a path and waits for it, and ends its calibration in
// the background. ErrBusy: it is in use, or being loaded.
func (s *Server) Unload(path string) error {
	s.preparer.stop(path)
	if !s.pool.drop(path) {
		return ErrBusy
	}
	return nil
}
