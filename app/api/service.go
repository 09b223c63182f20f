package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"godwit/app/api/wire"
	"godwit/app/hub"
	"godwit/app/pool"
	"godwit/engine"
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
	defer l.Release()
	tallyOf(ctx).use(l.Model.Name)
	return do(ctx, &wire.Model{Name: l.Model.Name, Info: l.Model, Engine: l.Engine, Defaults: v.s.live.Load().defaults, Load: l.Load})
}

func (v service) Models() ([]pool.Model, error) {
	list, err := v.s.pool.Models()
	loadedFirst(list)
	return list, err
}

// loadedFirst sorts loaded models to the front, then by name.
func loadedFirst(list []pool.Model) {
	rank := func(m *pool.Model) int {
		if m.Loaded() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b pool.Model) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(a.Name, b.Name))
	})
}

// inUse turns the errors about a model that cannot be unloaded into what a client
// reads, and returns others as they are.
func inUse(err error, name string) error {
	if errors.Is(err, pool.ErrBusy) || errors.Is(err, pool.ErrFixed) {
		return wire.Fault(http.StatusConflict, wire.Invalid, "model %s is in use or being loaded", name)
	}
	return err
}

func (v service) Unload(name string) error {
	m, err := v.s.named(name)
	if err != nil {
		return err
	}
	return inUse(v.s.pool.Unload(m.Path), m.Name)
}

func (v service) Remove(ctx context.Context, name string) error {
	m, err := v.s.named(name)
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

// mount brings the endpoints of a dialect into the table.
func mount(list []wire.Route) []route {
	out := make([]route, len(list))
	for i, r := range list {
		out[i] = route{r.Method, r.Path, r.About, handler(r.Do), r.Request, r.Answer, r.Query}
	}
	return out
}

// acquire loads the model of a name.
func (s *Server) acquire(ctx context.Context, name string, keep *time.Duration) (*pool.Lease, error) {
	m, err := s.pool.Find(name)
	if err != nil {
		return nil, err
	}
	return named(m)(s.pool.Acquire(ctx, m, pool.Terms{KeepAlive: keep}))
}

// lease loads the model of a call.
func (s *Server) lease(ctx context.Context, head *wire.Head) (*pool.Lease, error) {
	m, err := s.pool.Find(head.Model)
	if err != nil {
		return nil, err
	}
	least := head.Context
	if o, err := wire.ProfileOptions(m.Profile); err == nil && o.Context != nil && least == 0 {
		least = *o.Context
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

// named gives a lease the model that was asked for: several can share the files
// of the one that is loaded.
func named(m hub.Model) func(*pool.Lease, error) (*pool.Lease, error) {
	return func(l *pool.Lease, err error) (*pool.Lease, error) {
		if err == nil && l.Model.Name != m.Name {
			l.Model = m
		}
		return l, err
	}
}

// noMemory is the error about a context that does not fit.
func noMemory(lack *engine.MemoryError, field string) error {
	gib := func(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
	most := "no context fits"
	if lack.Largest > 0 {
		most = fmt.Sprintf("the largest context that fits is %d tokens", lack.Largest)
	}
	e := wire.Bad(field, "a context of %d tokens takes %s with the model, %s are free; %s", lack.Context, gib(lack.Wanted), gib(lack.Free), most)
	e.Code = "insufficient_memory"
	return e
}
