package pool

import (
	"context"
	"errors"
	"time"

	"godwit/app/hub"
	"godwit/engine"
)

// entry is the state of one model file.
type entry struct {
	info    hub.Model
	state   State
	err     error
	engine  *engine.Engine
	options engine.Options          // options of the last load
	change  chan struct{}           // closed when a load or unload ends
	cancel  context.CancelCauseFunc // cancels the load
	users   int                     // number of users, including requests that wait for the load
	idle    chan struct{}           // closed when the last user leaves; nil if nothing waits for it
	used    time.Time               // time when the last user left
	until   time.Time               // time of the unload; zero without one, or while in use
	timer   *time.Timer
	took    time.Duration // duration of the load
	least   int           // minimum number of context tokens for the next load
	tried   int           // value of least in the last load
	held    bool          // whether the last load failed because models in use occupied the memory
	waits   bool          // whether the load waits until other models are unloaded
	wanted  func()        // notifies the borrower that it should release the model; nil if nobody has borrowed the model
	stale   bool          // whether the options have changed since the model was loaded
}

// out removes a user. The caller holds the pool's lock.
func (e *entry) out() {
	e.users--
	if e.users > 0 {
		return
	}
	e.wanted = nil
	if e.idle != nil {
		close(e.idle)
		e.idle = nil
	}
}

// vacate notifies the borrower of a model that it should release the model. The
// caller holds the pool's lock.
func (e *entry) vacate() {
	if e.wanted != nil {
		e.wanted()
	}
}

// start begins to load a model. The caller holds p.mu.
func (p *Pool) start(info hub.Model) *entry {
	e := p.entries[info.Path]
	if e == nil {
		e = &entry{info: info, state: Unloaded}
		p.entries[info.Path] = e
	}
	if e.state == Unloaded || e.state == Failed {
		var ctx context.Context
		ctx, e.cancel = context.WithCancelCause(p.ctx)
		e.state, e.change = Loading, make(chan struct{})
		p.changed()
		p.work.Add(1)
		go p.load(ctx, e)
	}
	return e
}

// load opens a model. It runs in a separate goroutine.
func (p *Pool) load(ctx context.Context, e *entry) {
	defer p.work.Done()
	p.makeRoom(e)
	p.mu.Lock()
	least, changes := e.least, p.changes
	p.mu.Unlock()
	start := time.Now()
	eng, err := p.open(ctx, e, least)
	held, late := false, time.After(wayTime)
	for errors.Is(err, engine.ErrMemory) {
		var gone bool
		gone, held = p.makeWay(ctx, e, late)
		p.mu.Lock()
		same := changes == p.changes // if anything changed, memory may have become free since the attempt
		changes = p.changes
		p.mu.Unlock()
		if !gone && (held || same || time.Since(start) > wayTime) {
			break
		}
		eng, err = p.open(ctx, e, least)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.held = held
	stopped := errors.Is(context.Cause(ctx), ErrStopped)
	if stopped && eng != nil { // the stop came after the load had finished
		p.mu.Unlock()
		err = eng.Close()
		p.mu.Lock()
	}
	if stopped && !errors.Is(err, ErrStopped) {
		err = errors.Join(ErrStopped, err)
	}
	e.least, e.tried = 0, least
	e.cancel(nil)
	defer close(e.change)
	defer p.changed()
	if err != nil {
		e.state, e.err = Failed, err
		if p.ctx.Err() == nil && !stopped { // not logged if the server or the load was stopped
			p.log.Error("model not loaded", "model", e.info.Name, "err", err)
		}
		return
	}
	e.state, e.err, e.engine, e.used, e.took = Loaded, nil, eng, time.Now(), time.Since(start)
	p.log.Info("model ready", "model", e.info.Name, "ctx", eng.Context(), "ms", e.took.Milliseconds())
}

// open loads a model with the current options and a context of at least the given
// number of tokens.
func (p *Pool) open(ctx context.Context, e *entry, least int) (*engine.Engine, error) {
	o, err := p.o.Engine(e.info.Path)
	if err != nil {
		return nil, err
	}
	o = widen(o, least)
	o.LoRA = p.adapters.apply(o.LoRA)
	path := e.info.Path
	p.mu.Lock()
	e.options = o
	p.mu.Unlock()
	p.account(&o)
	also := o.Observe
	o.Log, o.Observe = p.log, func(st engine.Step) {
		p.step(st)
		if also != nil {
			also(st)
		}
	}
	report := func(f func(string, float64), also func(float64) error) func(float64) error {
		return func(share float64) error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			f(path, share)
			if also != nil {
				return also(share)
			}
			return nil
		}
	}
	o.Progress, o.Measuring = report(p.loading, o.Progress), report(p.measuring, o.Measuring)
	eng, err := engine.Open(ctx, path, o)
	if err == nil && eng.Unmeasured() {
		p.preparer.add(path, o)
	}
	return eng, err
}

// StopLoad stops the load of the model at a path. It returns false if the model is
// not being loaded.
func (p *Pool) StopLoad(path string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[path]
	if e == nil || e.state != Loading {
		return false
	}
	e.cancel(ErrStopped)
	return true
}

// unload closes an idle model and returns a channel that is closed when that is
// done. The caller holds p.mu.
func (p *Pool) unload(e *entry) <-chan struct{} {
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

// Unload unloads the model at a path and waits until that is done. If the model is
// still in use or being loaded after a short wait, it returns ErrBusy.
func (p *Pool) Unload(path string) error {
	late := time.After(p.parting)
	for {
		done, going := p.unloadNow(path)
		switch {
		case done == nil:
			return nil
		case going:
			<-done
			return nil
		}
		select {
		case <-done:
		case <-late:
			return ErrBusy
		}
	}
}

// unloadNow begins to unload a model. It returns a channel to wait on. If going
// is true, the channel reports the end of the unload. Otherwise it reports the
// end of a load, or of the model's use. It returns nil if there is nothing to
// wait for.
func (p *Pool) unloadNow(path string) (done <-chan struct{}, going bool) {
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
	e.vacate()
	if e.idle == nil {
		e.idle = make(chan struct{})
	}
	return e.idle, false
}

// Remove unloads a model and removes it from the library.
func (p *Pool) Remove(ctx context.Context, m hub.Model) error {
	if p.fixed != nil {
		return ErrFixed
	}
	if err := p.Unload(m.Path); err != nil && m.Profile == nil { // another model may use the files of a derived model
		return err
	}
	return p.library.Remove(ctx, m.Name)
}
