package api

import (
	"context"
	"net/http"

	"godwit/app/api/wire"
)

// service shows the server to the dialects.
type service struct{ s *Server }

var (
	_ wire.Service = service{}
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
	defer l.release()
	tallyOf(ctx).use(l.Name)
	return do(ctx, &wire.Model{Name: l.Name, Info: l.Info, Engine: l.Engine, Defaults: v.s.live.Load().defaults, Load: l.Load})
}

func (v service) Models() ([]wire.ModelState, error) {
	list, err := v.s.pool.status()
	if err != nil {
		return nil, err
	}
	sortStatus(list)
	out := make([]wire.ModelState, len(list))
	for i, m := range list {
		out[i] = wire.ModelState{Model: m.Model, State: string(m.State), Context: m.Context, Bytes: m.Bytes, Until: m.Until}
	}
	return out, nil
}

func (v service) Unload(name string) error {
	m, err := v.s.named(name)
	if err != nil {
		return err
	}
	if !v.s.pool.drop(m.Path) {
		return wire.Fault(http.StatusConflict, wire.Invalid, "model %s is in use or being loaded", m.Name)
	}
	return nil
}

func (v service) Remove(ctx context.Context, name string) error {
	m, err := v.s.named(name)
	if err != nil {
		return err
	}
	if v.s.pool.fixed != nil || !v.s.pool.drop(m.Path) {
		return wire.Fault(http.StatusConflict, wire.Invalid, "model %s is in use or being loaded", m.Name)
	}
	if err := v.s.pool.library.Remove(ctx, m.Name); err != nil {
		return hubFault(err)
	}
	v.s.changes.tell()
	return nil
}

func (v service) Changed(ctx context.Context) <-chan struct{} {
	return v.s.changes.listen(ctx, v.s.ctx)
}

// mount brings the endpoints of a dialect into the table.
func mount(list []wire.Route) []route {
	out := make([]route, len(list))
	for i, r := range list {
		out[i] = route{r.Method, r.Path, r.About, handler(r.Do), r.Request, r.Answer, r.Query}
	}
	return out
}
