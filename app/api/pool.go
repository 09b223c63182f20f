package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"godwit/app/api/wire"
	"godwit/app/hub"
	"godwit/engine"
)

// State is where a model stands.
type State string

// The states of a model.
const (
	Unloaded  State = "unloaded"
	Loading   State = "loading"
	Loaded    State = "loaded"
	Unloading State = "unloading"
	Failed    State = "failed" // the last attempt; the next request tries again
)

// pool loads models when they are first used and unloads them when nobody has
// used them for a while.
type pool struct {
	open    func(ctx context.Context, path string, least int) (*engine.Engine, error) // least: tokens that the context holds at least
	library *hub.Library
	keep    time.Duration // negative: for ever
	log     *slog.Logger
	changed func()          // called when a model's state has changed; p.mu is held
	ctx     context.Context // ends with the server
	parting time.Duration   // how long an unload waits for users
	work    sync.WaitGroup

	mu      sync.Mutex
	entries map[string]*entry // by path
	fixed   *entry            // the only model, whatever a request names; may be nil
	closed  bool
}

// entry is one model file.
type entry struct {
	info   hub.Model
	state  State
	err    error
	engine *engine.Engine
	change chan struct{} // closed when loading or unloading ends
	users  int           // those that wait for its load among them
	idle   chan struct{} // closed when the last user leaves; nil: nobody waits for it
	used   time.Time     // when the last user left
	until  time.Time     // when it will be unloaded; zero: never or in use
	timer  *time.Timer
	took   time.Duration // of the load
	least  int           // tokens that the context of the next load holds at least
	tried  int           // least of the last load
	stale  bool          // loaded with options that have changed
}

// lease is a loaded model in use.
type lease struct {
	*engine.Engine
	Name  string
	Info  hub.Model
	Load  time.Duration // spent loading it for this lease
	p     *pool
	entry *entry
	keep  *time.Duration
	once  sync.Once
}

// release gives the model back.
func (l *lease) release() {
	l.once.Do(func() { l.p.release(l.entry, l.keep) })
}

// missing is the error about a name that no model has.
func missing(name string) *wire.Error {
	e := wire.Fault(http.StatusNotFound, wire.NotFound, "model %.256q is not there; GET /v1/models lists the models, 'godwit pull' fetches more", name)
	e.Code, e.Param = "model_not_found", "model"
	return e
}

// find returns the model that a request means.
func (p *pool) find(name string) (hub.Model, error) {
	if p.fixed != nil {
		return p.fixed.info, nil
	}
	if name == "" {
		return p.unnamed()
	}
	list, err := p.list()
	if err != nil {
		return hub.Model{}, err
	}
	return lookup(list, name)
}

// lookup finds a model by name. A path is no name: a client of the API cannot
// reach files outside of the library.
func lookup(list []hub.Model, name string) (hub.Model, error) {
	bare := strings.TrimSuffix(name, ":latest")
	for _, ok := range []func(m *hub.Model) bool{
		func(m *hub.Model) bool { return m.Name == name },
		func(m *hub.Model) bool { return strings.EqualFold(m.Name, bare) },
		func(m *hub.Model) bool { return m.Ref != "" && strings.EqualFold(m.Ref, bare) },
		func(m *hub.Model) bool {
			repo, _, ok := strings.Cut(m.Ref, ":")
			return ok && strings.EqualFold(repo, bare)
		},
	} {
		for i := range list {
			if ok(&list[i]) && list[i].Error == "" {
				return list[i], nil
			}
		}
	}
	return hub.Model{}, missing(name)
}

// unnamed is the model for requests that name none: the one used last, else
// the only one of the library.
func (p *pool) unnamed() (hub.Model, error) {
	p.mu.Lock()
	var last *entry
	for _, e := range p.entries {
		if e.state == Loaded && (last == nil || e.users > 0 || last.users == 0 && e.used.After(last.used)) {
			last = e
		}
	}
	p.mu.Unlock()
	if last != nil {
		return last.info, nil
	}
	list, err := p.list()
	if err != nil {
		return hub.Model{}, err
	}
	if len(list) == 1 {
		return list[0], nil
	}
	if len(list) == 0 {
		return hub.Model{}, wire.Bad("model", "the library is empty; 'godwit pull demo' fetches a small model")
	}
	var names []string
	for _, m := range list[:min(len(list), 8)] {
		names = append(names, m.Name)
	}
	if len(list) > len(names) {
		names = append(names, "...")
	}
	return hub.Model{}, wire.Bad("model", "this field is required; there are %s", strings.Join(names, ", "))
}

// list returns the models that can be asked for.
func (p *pool) list() ([]hub.Model, error) {
	if p.fixed != nil {
		return []hub.Model{p.fixed.info}, nil
	}
	if p.library == nil {
		return nil, nil
	}
	all, err := p.library.List()
	return slices.DeleteFunc(all, func(m hub.Model) bool { return m.Error != "" }), err
}

// acquire returns a model, loaded. The load goes on when ctx ends before it.
func (p *pool) acquire(ctx context.Context, name string, keep *time.Duration) (*lease, error) {
	info, err := p.find(name)
	if err != nil {
		return nil, err
	}
	return p.lend(ctx, info, keep, 0)
}

// lend returns a model of which the file is known, loaded, with a context of at
// least so many tokens.
func (p *pool) lend(ctx context.Context, info hub.Model, keep *time.Duration, least int) (*lease, error) {
	start := time.Now()
	for {
		l, wait, err := p.try(info, keep, least)
		if err != nil {
			return nil, err
		}
		if wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
				if l != nil {
					p.abandon(l, wait)
				}
				return nil, context.Cause(ctx)
			}
			if l == nil {
				continue
			}
			if again, err := p.arrived(l); err != nil {
				return nil, err
			} else if again {
				continue
			}
		}
		l.Load = time.Since(start)
		return l, nil
	}
}

// try takes a loaded model, or starts the load, and says what to wait for: the end
// of a load, for which a user is counted already so that nothing unloads the model
// before, or with no lease the end of an unload.
func (p *pool) try(info hub.Model, keep *time.Duration, least int) (*lease, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errStopping
	}
	if wait := p.grow(info, least); wait != nil {
		return nil, wait, nil
	}
	e := p.start(info)
	if e.state == Unloading {
		return nil, e.change, nil
	}
	e.users++
	l := &lease{Engine: e.engine, Name: e.info.Name, Info: e.info, p: p, entry: e, keep: keep}
	if e.state == Loading {
		return l, e.change, nil
	}
	if e.timer != nil {
		e.timer.Stop()
		e.timer, e.until = nil, time.Time{}
	}
	return l, nil, nil
}

// arrived gives a lease its model when a load has ended. again: another load has
// begun since.
func (p *pool) arrived(l *lease) (again bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := l.entry
	if e.state == Loaded && !p.closed {
		l.Engine = e.engine
		return false, nil
	}
	e.out()
	switch {
	case p.closed:
		return false, errStopping
	case e.state == Failed:
		return false, wire.Fault(http.StatusInternalServerError, wire.Internal, "model %s cannot be loaded: %v", e.info.Name, e.err)
	}
	return true, nil
}

// abandon gives up a lease whose load goes on: the model counts as used when it has
// come, so that it is unloaded some time after.
func (p *pool) abandon(l *lease, loaded <-chan struct{}) {
	p.mu.Lock()
	loading := l.entry.state == Loading
	if loading {
		p.work.Add(1) // beside the load's own
	}
	p.mu.Unlock()
	if !loading {
		l.release()
		return
	}
	go func() {
		defer p.work.Done()
		<-loaded
		l.release()
	}()
}

// start begins to load a model that is not there; p.mu is held.
func (p *pool) start(info hub.Model) *entry {
	e := p.entries[info.Path]
	if e == nil {
		e = &entry{info: info, state: Unloaded}
		p.entries[info.Path] = e
	}
	if e.state == Unloaded || e.state == Failed {
		e.state, e.change = Loading, make(chan struct{})
		p.changed()
		p.work.Add(1)
		go p.load(e)
	}
	return e
}

// load opens a model; it runs in its own goroutine.
func (p *pool) load(e *entry) {
	defer p.work.Done()
	p.makeRoom(e)
	p.mu.Lock()
	least := e.least
	p.mu.Unlock()
	start := time.Now()
	eng, err := p.open(p.ctx, e.info.Path, least)
	for errors.Is(err, engine.ErrMemory) && p.unloadOldest(e) {
		eng, err = p.open(p.ctx, e.info.Path, least)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.least, e.tried = 0, least
	defer close(e.change)
	defer p.changed()
	if err != nil {
		e.state, e.err = Failed, err
		if p.ctx.Err() == nil { // who ends the server knows
			p.log.Error("model not loaded", "model", e.info.Name, "err", err)
		}
		return
	}
	e.state, e.err, e.engine, e.used, e.took = Loaded, nil, eng, time.Now(), time.Since(start)
	p.log.Info("model ready", "model", e.info.Name, "ctx", eng.Context(), "ms", e.took.Milliseconds())
}

// leave counts out a user who has not used the model, which stays loaded.
func (p *pool) leave(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.out()
}

// out counts a user out; the pool's lock is held.
func (e *entry) out() {
	e.users--
	if e.users == 0 && e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}

// release counts a user out and starts the clock.
func (p *pool) release(e *entry, keep *time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.out()
	if e.state != Loaded {
		return
	}
	e.used = time.Now()
	if e.users > 0 || p.closed {
		return
	}
	span := p.keep
	if keep != nil {
		span = *keep
	}
	switch {
	case span < 0:
	case span == 0:
		p.unload(e)
	default:
		e.until = e.used.Add(span)
		e.timer = time.AfterFunc(span, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if e.state == Loaded && e.users == 0 && !e.until.IsZero() && !time.Now().Before(e.until) {
				p.unload(e)
			}
		})
	}
}

// unload closes an idle model; p.mu is held. It returns what to wait for.
func (p *pool) unload(e *entry) <-chan struct{} {
	eng := e.engine
	e.state, e.engine, e.change, e.stale = Unloading, nil, make(chan struct{}), false
	if e.timer != nil {
		e.timer.Stop()
	}
	e.timer, e.until = nil, time.Time{}
	p.changed()
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		err := eng.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		e.state = Unloaded
		p.changed()
		close(e.change)
		p.log.Info("model unloaded", "model", e.info.Name, "err", err)
	}()
	return e.change
}

// makeRoom unloads idle models, the one used longest ago first, until the
// device has free what a file of that size takes.
func (p *pool) makeRoom(next *entry) {
	for {
		p.mu.Lock()
		var free int64
		for _, e := range p.entries {
			if e.state == Loaded && e != next {
				free = e.engine.Free()
			}
		}
		p.mu.Unlock()
		// The repacked weights and a cache of the same order.
		if free == 0 || free > 2*next.info.Size || !p.unloadOldest(next) {
			return
		}
	}
}

// unloadOldest unloads the idle model that was used longest ago and waits for it.
// false: every model is in use.
func (p *pool) unloadOldest(next *entry) bool {
	p.mu.Lock()
	var oldest *entry
	for _, e := range p.entries {
		if e.state == Loaded && e != next && e.users == 0 && (oldest == nil || e.used.Before(oldest.used)) {
			oldest = e
		}
	}
	if oldest == nil {
		p.mu.Unlock()
		return false
	}
	p.log.Info("making room", "model", oldest.info.Name, "bytes", next.info.Size)
	done := p.unload(oldest)
	p.mu.Unlock()
	<-done
	return true
}

// drop unloads a model and waits for it. false: it is in use, or being loaded,
// and was for as long as the pool waits for that.
func (p *pool) drop(path string) bool {
	late := time.After(p.parting)
	for {
		done, going := p.dropNow(path)
		if done == nil {
			return going
		}
		if going {
			<-done
			return true
		}
		select {
		case <-done:
		case <-late:
			return false
		}
	}
}

// dropNow begins to unload a model. It returns what to wait for: the end of the unload
// (going), or else of the load or the model's use. nil: there is nothing to wait for.
func (p *pool) dropNow(path string) (done <-chan struct{}, going bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[path]
	switch {
	case e == nil || e.state == Unloaded || e.state == Failed:
		return nil, true
	case e.state == Unloading:
		return e.change, true
	case e.state == Loading:
		return e.change, false
	case e.users == 0:
		return p.unload(e), true
	}
	if e.idle == nil {
		e.idle = make(chan struct{})
	}
	return e.idle, false
}

// status is a model as lists show it.
type status struct {
	hub.Model
	State   State
	Context int // of the loaded model
	Bytes   int64
	Until   time.Time
}

// status lists all models with their state.
func (p *pool) status() ([]status, error) {
	list, err := p.list()
	if err != nil {
		return nil, err
	}
	out := make([]status, len(list))
	for i := range list {
		out[i] = p.describe(list[i])
	}
	return out, nil
}

func (p *pool) describe(m hub.Model) status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := status{Model: m, State: Unloaded}
	if e := p.entries[m.Path]; e != nil {
		s.State, s.Until = e.state, e.until
		if e.engine != nil {
			s.Context, s.Bytes = e.engine.Context(), e.engine.KV().Bytes()+m.Size
		}
	}
	return s
}

// busy reports whether a model is in use or being loaded.
func (p *pool) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.users > 0 || e.state == Loading {
			return true
		}
	}
	return false
}

// ready reports whether the fixed model is there, or why not.
func (p *pool) ready() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fixed == nil || p.fixed.used != (time.Time{}) {
		return true, nil
	}
	return false, p.fixed.err
}

// close unloads everything and waits.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	var open []*engine.Engine
	for _, e := range p.entries {
		if e.timer != nil {
			e.timer.Stop()
		}
		if e.state == Loaded {
			open = append(open, e.engine)
			e.state, e.engine = Unloaded, nil
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, e := range open {
		errs = append(errs, e.Close())
	}
	p.work.Wait()
	// A load that ended after the sweep.
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.engine != nil {
			errs = append(errs, e.engine.Close())
			e.state, e.engine = Unloaded, nil
		}
	}
	return errors.Join(errs...)
}

// sortStatus puts loaded models first, then by name.
func sortStatus(list []status) {
	slices.SortStableFunc(list, func(a, b status) int {
		loaded := func(s *status) int {
			if s.State == Loaded {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(loaded(&a), loaded(&b)), cmp.Compare(a.Name, b.Name))
	})
}

// statusGone is the status of a request whose client did not wait for the answer,
// as nginx has it: the counters keep it apart from failures.
const statusGone = 499

// errGone is for the counters, and for a client that has closed its connection for
// sending only, which looks like one that has gone.
var errGone = wire.Fault(statusGone, wire.Invalid, "the connection was closed before the answer was there")

// errStopping ends requests when the server does.
var errStopping = wire.Fault(http.StatusServiceUnavailable, wire.Unavailable, "the server is shutting down")

// fix makes a model the only one and begins to load it.
func (p *pool) fix(info hub.Model) error {
	if info.Error != "" {
		return fmt.Errorf("%s: %s", info.Path, info.Error)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fixed = p.start(info)
	return nil
}
