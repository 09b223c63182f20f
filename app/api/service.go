package api

import (
	"context"
	"net/http"

	"godwit/app/api/wire"
	"godwit/app/hub"
	"godwit/app/pool"
)

// service is the part of the server that dialects use.
type service struct{ s *Server }

var (
	_ wire.Service = service{}
	_ wire.Host    = service{}
	_ wire.Shelf   = service{}
)

func (v service) Body(w http.ResponseWriter, r *http.Request) ([]byte, error) { return v.s.body(w, r) }

func (v service) Answer(w http.ResponseWriter, r *http.Request, c wire.Call) error {
	return v.s.answer(w, r, c)
}

func (v service) Use(r *http.Request, h wire.Head, do func(ctx context.Context, m *wire.Model) error) error {
	ctx, cancel := v.s.context(r)
	defer cancel()
	l, err := v.s.lease(ctx, &h)
	if err != nil {
		return err
	}
	defer l.Release()
	return do(ctx, v.s.model(ctx, l))
}

func (v service) Note(w http.ResponseWriter, notices wire.Notices, unused []string) {
	v.s.note(w, notices, unused)
}

func (v service) Context(r *http.Request) (context.Context, context.CancelFunc) {
	return v.s.context(r)
}

func (v service) Client(r *http.Request) wire.Client { return v.s.client(r) }

func (v service) Defaults() wire.Defaults { return v.s.live.Load().defaults }

func (v service) Life() context.Context { return v.s.ctx }

func (v service) Go(do func()) { v.s.work.Go(do) }

func (v service) Whole(ctx context.Context, c wire.Call, from wire.Client) (_ any, err error) {
	ctx, done := v.s.granted(ctx, from.Grant)
	defer func() { done(err) }()
	return collect(ctx, c, v.s.begin(ctx, c, from.Whose), func(text string) { v.s.log.Info("request notice", "notice", text) })
}

func (v service) Send(ctx context.Context, w http.ResponseWriter, c wire.Call, from wire.Client) (err error) {
	ctx, done := v.s.granted(ctx, from.Grant)
	defer func() { done(err) }()
	return v.s.sendStream(ctx, wire.NewOut(w, c.Head().Lines), c, v.s.begin(ctx, c, from.Whose))
}

func (v service) Explain(err error) *wire.Error { return v.s.explain(err) }

func (v service) Find(name string) (hub.Model, error) { return v.s.pool.Find(name) }

func (v service) Named(name string) (pool.Model, error) {
	m, err := v.s.pool.Named(name)
	if err != nil {
		return pool.Model{}, err
	}
	return pool.Model{Model: m, Standing: v.s.pool.Standing(m.Path)}, nil
}

func (v service) Models() ([]pool.Model, error) {
	return v.s.pool.Models()
}

func (v service) Pull(ctx context.Context, name string, progress func(hub.Progress)) (hub.Model, error) {
	lib := v.s.pool.Library()
	if lib == nil {
		return hub.Model{}, errNoLibrary
	}
	m, err := lib.Pull(ctx, name, progress)
	return m, hubFault(err)
}

func (v service) Unload(name string) error {
	m, err := v.Named(name)
	if err != nil {
		return err
	}
	return inUse(v.s.pool.Unload(m.Path), m.Name)
}

func (v service) Remove(ctx context.Context, name string) error {
	m, err := v.Named(name)
	if err != nil {
		return err
	}
	if err := v.s.pool.Remove(ctx, m.Model); err != nil {
		return hubFault(inUse(err, m.Name))
	}
	v.s.changes.tell()
	return nil
}

func (v service) Changed(ctx context.Context) <-chan struct{} {
	return v.s.changes.listen(ctx, v.s.ctx)
}
