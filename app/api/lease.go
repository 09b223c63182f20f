package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"godwit/app/api/wire"
	"godwit/app/config"
	"godwit/app/hub"
	"godwit/app/keys"
	"godwit/app/pool"
	"godwit/engine"
)

// model describes a leased model to a call, and records it in the tally of the
// request.
func (s *Server) model(ctx context.Context, l *pool.Lease) *wire.Model {
	wire.TallyOf(ctx).Use(l.Model.Name)
	return &wire.Model{Name: l.Model.Name, Info: l.Model, Engine: l.Engine, Defaults: s.defaultsOf(l.Model.Path), Load: l.Load}
}

// defaultsOf returns the defaults of requests to the model at a path.
func (s *Server) defaultsOf(path string) wire.Defaults {
	d := s.live.Load().defaults
	s.o.Tuned.Sample(path, &d.Sampling)
	d.MaxTokens = s.o.Tuned.MaxTokens(path, d.MaxTokens)
	return d
}

// lease loads the model of a call.
func (s *Server) lease(ctx context.Context, head *wire.Head) (*pool.Lease, error) {
	m, err := s.pool.Find(head.Model)
	if err != nil {
		return nil, err
	}
	if g := keys.Of(ctx); !g.Allows(m.Name) {
		e := wire.Fault(http.StatusForbidden, wire.Forbidden, "API key %s may not use model %s", g.Name(), m.Name)
		e.Code, e.Param = "model_not_allowed", "model"
		return nil, e
	}
	if head.AsLoaded {
		return named(m)(s.pool.Acquire(ctx, m, pool.Terms{}))
	}
	least := head.Context
	if o, err := wire.ProfileOptions(m.Profile); err == nil && o.Context != nil && least == 0 {
		least = *o.Context
	}
	if err := s.governed(head, least); err != nil {
		return nil, err
	}
	if trained := m.Info.Context; trained > 0 {
		least = min(least, trained)
	}
	var lack *engine.MemoryError
	switch err := s.pool.Fits(&m, least); {
	case errors.As(err, &lack):
		return nil, noMemory(lack, cmp.Or(head.ContextField, "options.num_ctx"))
	case err != nil:
		return nil, err
	}
	return named(m)(s.pool.Acquire(ctx, m, pool.Terms{KeepAlive: head.KeepAlive, Context: least}))
}

// governed returns an error if a call would load a model against the policy. least is
// the context that it needs.
func (s *Server) governed(head *wire.Head, least int) error {
	if p := s.o.Policy; p != nil {
		if head.KeepAlive != nil {
			if err := p.Locked("server.keep_alive", config.Duration(max(*head.KeepAlive, -1))); err != nil {
				return err
			}
		}
		if most := s.o.Settings.Engine.CtxSize; most > 0 && least > most {
			return p.Refused("engine.ctx_size")
		}
	}
	return nil
}

// named sets the requested model of a lease, because several models can share the
// loaded files.
func named(m hub.Model) func(*pool.Lease, error) (*pool.Lease, error) {
	return func(l *pool.Lease, err error) (*pool.Lease, error) {
		if err == nil && l.Model.Name != m.Name {
			l.Model = m
		}
		return l, err
	}
}

// noMemory returns the error for a context that does not fit in memory.
func noMemory(lack *engine.MemoryError, field string) error {
	gib := func(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
	most := "no context fits"
	if lack.Largest > 0 {
		most = fmt.Sprintf("the largest context that fits is %d tokens", lack.Largest)
	}
	e := wire.Bad(field, "a context of %d tokens needs %s with the model, but %s is free; %s", lack.Context, gib(lack.Wanted), gib(lack.Free), most)
	e.Code = "insufficient_memory"
	return e
}

// context returns a context that ends when the client disconnects or the server
// stops.
func (s *Server) context(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(s.ctx, func() { cancel(errStopping) })
	return ctx, func() {
		stop()
		cancel(context.Canceled)
	}
}

// client identifies the sender of a request.
func (s *Server) client(r *http.Request) wire.Client {
	key := s.guard.keyOf(r)
	return wire.Client{Key: key, Grant: keys.Of(r.Context()), Whose: wire.WhoseIs(r, key, s.o.Settings.Server.SharePrefixes)}
}
