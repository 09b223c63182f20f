package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"godwit/app/api/wire"
	"godwit/app/hub"
	"godwit/engine"
)

// widen returns the options of a load whose context holds at least so many tokens.
func widen(o engine.Options, least int) engine.Options {
	if o.Context > 0 {
		o.Context = max(o.Context, least)
	}
	if o.Cells > 0 {
		o.Cells = max(o.Cells, least)
	}
	o.AtLeast = max(o.AtLeast, least)
	return o
}

// grow makes room for a longer context than a model is loaded with: it waits for
// its users and unloads it, and the next load has that context. nil: there is
// nothing to wait for. p.mu is held.
func (p *pool) grow(info hub.Model, least int) <-chan struct{} {
	e := p.entries[info.Path]
	if e == nil {
		e = &entry{info: info, state: Unloaded}
		p.entries[info.Path] = e
	}
	if e.state != Loading {
		e.least = max(e.least, least)
	}
	loaded := e.state == Loaded && (e.stale || e.least > e.engine.Context() && e.least > e.tried)
	switch {
	case e.state == Loading && least > e.least && least > 0:
		return e.change
	case !loaded:
		return nil
	case e.users == 0:
		return p.unload(e)
	}
	if e.idle == nil { // later requests wait too, or it would never be idle
		e.idle = make(chan struct{})
	}
	return e.idle
}

// renew has every model loaded again before its next use, once its users are gone.
func (p *pool) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		switch e.state {
		case Loaded:
			if e.stale = true; e.users == 0 {
				p.unload(e)
			}
		case Loading:
			e.stale = true
		}
	}
}

// lease loads the model of a call.
func (s *Server) lease(ctx context.Context, head *wire.Head) (*lease, error) {
	m, err := s.pool.find(head.Model)
	if err != nil {
		return nil, err
	}
	least := head.Context
	if trained := m.Info.Context; trained > 0 {
		least = min(least, trained)
	}
	if err := s.fits(&m, least, cmp.Or(head.ContextField, "options.num_ctx")); err != nil {
		return nil, err
	}
	return s.pool.lend(ctx, m, head.KeepAlive, least)
}

// fits refuses a context for which a loaded model would be unloaded in vain.
func (s *Server) fits(m *hub.Model, least int, field string) error {
	s.pool.mu.Lock()
	var now *engine.Engine
	if e := s.pool.entries[m.Path]; e != nil && e.state == Loaded {
		now = e.engine
	}
	s.pool.mu.Unlock()
	if now == nil || least <= now.Context() {
		return nil
	}
	o, err := s.current()
	if err != nil {
		return err
	}
	s.account(&o)
	o = widen(o, least)
	err = engine.Fits(m.Path, o, s.free(m.Path, &o))
	var lack *engine.MemoryError
	if !errors.As(err, &lack) {
		return err
	}
	most := "no context fits"
	if lack.Largest > 0 {
		most = fmt.Sprintf("the largest context that fits is %d tokens", lack.Largest)
	}
	e := wire.Bad(field, "a context of %d tokens takes %s with the model, %s are free; %s", lack.Context, gib(lack.Wanted), gib(lack.Free), most)
	e.Status, e.Code = http.StatusBadRequest, "insufficient_memory"
	return e
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
