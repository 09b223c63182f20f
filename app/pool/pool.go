// Package pool holds the loaded models. It loads a model at its first use and
// leases it to requests. It unloads models to make room for others, or when
// they have been idle for a while.
//
//	p, err := pool.New(pool.Options{Library: models, Engine: options, Log: log})
//	m, err := p.Find("smollm2")
//	l, err := p.Acquire(ctx, m, pool.Terms{})
//	defer l.Release()
//	l.Engine.Generate(ctx, request)
//
// A model is unloaded, loading, loaded, unloading, or failed. Watchers are
// notified of changes.
package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"godwit/app/hub"
	"godwit/engine"
)

// Options configures a Pool.
type Options struct {
	Library *hub.Library // may be nil
	Model   *hub.Model   // the only model; nil to serve the models of Library
	// Engine returns the options of a load from the current settings. path is
	// the file of the model, or "" for no particular model.
	Engine    func(path string) (engine.Options, error)
	KeepAlive time.Duration // how long an idle model stays loaded; negative: forever
	Watch     Watcher
	// Free returns the free bytes for a load that replaces the model at path,
	// or 0 if that is unknown. If Free is nil, the device's free memory is
	// used.
	Free func(path string, o *engine.Options) int64
	Log  *slog.Logger // nil to log nothing
}

// Fixed returns options that do not change, for Options.Engine.
func Fixed(o engine.Options) func(path string) (engine.Options, error) {
	return func(string) (engine.Options, error) { return o, nil }
}

// Watcher is notified of changes to models. Its functions must not block or
// call the pool. Each may be nil.
type Watcher struct {
	Changed   func()                             // called when the state of a model has changed
	Loading   func(path string, share float64)   // progress of a load, from 0 to 1
	Measuring func(path string, share float64)   // progress of the calibration before a load
	Preparing func(path string, state Preparing) // progress of a calibration in the background
	Step      func(engine.Step)                  // called after each step of a device, on its goroutine
}

// Pool is a set of loaded models.
type Pool struct {
	o        Options
	log      *slog.Logger
	library  *hub.Library
	preparer preparer
	adapters adapters
	reserved engine.Memory // memory reserved by the loaded models
	ctx      context.Context
	stop     context.CancelFunc
	parting  time.Duration // how long an unload waits for users
	work     sync.WaitGroup

	watching sync.Mutex // allows one call of Watch at a time
	watchers atomic.Pointer[[]Watcher]

	mu      sync.Mutex
	keep    time.Duration
	entries map[string]*entry // entries by path
	fixed   *entry            // the model that answers every request; may be nil
	closed  bool
	changes int           // number of state changes of all models so far
	free    chan struct{} // closed when a model is no longer in use or has been unloaded; nil if no load waits
}

// parting is how long an unload waits for users. A client may see the end of its
// response shortly before the request releases the model.
const parting = time.Second

// New makes a pool.
func New(o Options) (*Pool, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Pool{
		o: o, log: o.Log, library: o.Library, keep: o.KeepAlive, parting: parting, entries: map[string]*entry{},
	}
	if o.Free == nil {
		p.o.Free = func(path string, o *engine.Options) int64 { return o.Free(path) }
	}
	p.watchers.Store(&[]Watcher{o.Watch})
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.preparer.init(p.ctx, p.busy, p.prepared, o.Log)
	if m := o.Model; m != nil {
		if m.Error != "" {
			return nil, fmt.Errorf("%s: %s", m.Path, m.Error)
		}
		p.fixed = &entry{info: *m, state: Unloaded}
		p.entries[m.Path] = p.fixed
	}
	return p, nil
}

// Preload starts to load the model of Options.Model before its first use.
func (p *Pool) Preload() {
	if p.fixed == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.start(p.fixed.info)
	}
}

// Watch registers a watcher, which is notified of changes from now on.
func (p *Pool) Watch(w Watcher) {
	p.watching.Lock()
	defer p.watching.Unlock()
	list := append([]Watcher{}, *p.watchers.Load()...)
	list = append(list, w)
	p.watchers.Store(&list)
}

// changed notifies the watchers, and the loads that wait for memory, of a new
// state. The caller holds p.mu.
func (p *Pool) changed() {
	p.changes++
	p.freed()
	for _, w := range *p.watchers.Load() {
		if w.Changed != nil {
			w.Changed()
		}
	}
}

func (p *Pool) loading(path string, share float64) {
	for _, w := range *p.watchers.Load() {
		if w.Loading != nil {
			w.Loading(path, share)
		}
	}
}

func (p *Pool) measuring(path string, share float64) {
	for _, w := range *p.watchers.Load() {
		if w.Measuring != nil {
			w.Measuring(path, share)
		}
	}
}

func (p *Pool) prepared(path string, state Preparing) {
	for _, w := range *p.watchers.Load() {
		if w.Preparing != nil {
			w.Preparing(path, state)
		}
	}
}

// step notifies watchers of a device's step. It runs on the device's goroutine
// for each token and does not allocate.
func (p *Pool) step(st engine.Step) {
	for _, w := range *p.watchers.Load() {
		if w.Step != nil {
			w.Step(st)
		}
	}
}

// KeepAlive sets how long a model stays loaded after its last use. A negative
// time means forever.
func (p *Pool) KeepAlive(span time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = span
}

// Library returns the library of the models, or nil without one.
func (p *Pool) Library() *hub.Library { return p.library }

// Options returns the current options of a load of the model at a path. A plan
// with these options includes the memory of the loaded models.
func (p *Pool) Options(path string) (engine.Options, error) {
	o, err := p.o.Engine(path)
	p.account(&o)
	return o, err
}

// account makes a load use the memory accounting of this process's models.
func (p *Pool) account(o *engine.Options) {
	if o.Memory == nil {
		o.Memory = &p.reserved
	}
}

// Ready waits until the model of Options.Model is loaded.
func (p *Pool) Ready(ctx context.Context) error {
	m, err := p.Find("")
	if err != nil {
		return err
	}
	l, err := p.Acquire(ctx, m, Terms{})
	if err == nil {
		p.leave(l.entry)
	}
	return err
}

// Close cancels loads and calibrations, unloads everything and waits until that is
// done.
func (p *Pool) Close() error {
	p.stop()
	p.preparer.work.Wait()
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
	// a load may have ended after the loop above
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
