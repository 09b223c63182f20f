package pool

import (
	"context"
	"errors"
	"sync"
	"time"

	"godwit/app/hub"
	"godwit/engine"
)

// Lease is a loaded model that stays loaded until Release.
type Lease struct {
	Engine *engine.Engine
	Model  hub.Model
	Load   time.Duration // time for which the lease waited for the model

	p     *Pool
	entry *entry
	keep  *time.Duration
	once  sync.Once
}

// Release ends the lease. The model's keep-alive time starts now.
func (l *Lease) Release() {
	l.once.Do(func() { l.p.release(l.entry, l.keep) })
}

// Terms are the conditions of a lease.
type Terms struct {
	KeepAlive *time.Duration // keep-alive time after this use; nil for the pool's default
	Context   int            // minimum number of tokens in the context
}

// Acquire leases a model and loads it if necessary. It accepts any model file, even
// if the pool serves one model under all names. If ctx ends first, the load
// continues.
func (p *Pool) Acquire(ctx context.Context, info hub.Model, terms Terms) (*Lease, error) {
	start := time.Now()
	for {
		l, wait, err := p.try(info, terms)
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

// Borrow leases a model that is loaded and that nobody uses or waits for. It
// returns nil if there is no such model at the path, because it never starts a
// load. It does not change the time at which the model will be unloaded. The
// pool calls wanted when the model should be unloaded or reloaded. wanted must
// not block.
func (p *Pool) Borrow(path string, wanted func()) *Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[path]
	if p.closed || e == nil || e.state != Loaded || e.users > 0 || e.idle != nil {
		return nil
	}
	keep := time.Duration(-1)
	if !e.until.IsZero() {
		keep = max(time.Until(e.until), time.Millisecond)
	}
	if e.timer != nil {
		e.timer.Stop()
		e.timer, e.until = nil, time.Time{}
	}
	e.users++
	e.wanted = wanted
	return &Lease{Engine: e.engine, Model: e.info, p: p, entry: e, keep: &keep}
}

// EraseText deletes texts from the loaded models and from the prefix store.
// keys are the values that engine.Request.Kept received.
func (p *Pool) EraseText(ctx context.Context, keys []engine.PrefixKey) error {
	o, err := p.o.Engine("")
	if err != nil {
		return err
	}
	p.mu.Lock()
	var open []*entry
	for _, e := range p.entries {
		if e.state == Loaded && !p.closed {
			e.users++
			open = append(open, e)
		}
	}
	p.mu.Unlock()
	var errs []error
	for _, key := range keys {
		for _, e := range open {
			errs = append(errs, e.engine.EraseText(ctx, key))
		}
		if o.Prefixes != nil {
			o.Prefixes.Erase(key)
		}
	}
	for _, e := range open {
		p.dismiss(e)
	}
	return errors.Join(errs...)
}

// dismiss removes a user without starting the keep-alive time. The caller does
// not hold p.mu.
func (p *Pool) dismiss(e *entry) {
	p.mu.Lock()
	var keep *time.Duration
	if !e.until.IsZero() {
		span := max(time.Until(e.until), time.Millisecond)
		keep = &span
	}
	p.mu.Unlock()
	p.release(e, keep)
}

// try leases a loaded model, or starts a load and returns a channel to wait on.
// If it returns a lease and a channel, the channel reports the end of the load.
// The lease already counts as a user then, so that nothing unloads the model
// first. If it returns only a channel, the channel reports the end of an
// unload.
func (p *Pool) try(info hub.Model, terms Terms) (*Lease, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrStopping
	}
	if wait := p.grow(info, terms.Context); wait != nil {
		return nil, wait, nil
	}
	e := p.start(info)
	if e.state == Unloading {
		return nil, e.change, nil
	}
	e.users++
	l := &Lease{Engine: e.engine, Model: e.info, p: p, entry: e, keep: terms.KeepAlive}
	if e.state == Loading {
		return l, e.change, nil
	}
	if e.timer != nil {
		e.timer.Stop()
		e.timer, e.until = nil, time.Time{}
	}
	return l, nil, nil
}

// arrived sets the engine of a lease after a load has ended. again reports
// whether another load has begun in the meantime.
func (p *Pool) arrived(l *Lease) (again bool, err error) {
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
		return false, ErrStopping
	case e.state == Failed:
		return false, &LoadError{e.info.Name, e.err, e.held}
	}
	return true, nil
}

// abandon gives up a lease whose load continues. When the load ends, the
// keep-alive time starts, so that the model is unloaded later.
func (p *Pool) abandon(l *Lease, loaded <-chan struct{}) {
	p.mu.Lock()
	loading := l.entry.state == Loading
	if loading {
		p.work.Add(1) // one more than for the load itself
	}
	p.mu.Unlock()
	if !loading {
		l.Release()
		return
	}
	go func() {
		defer p.work.Done()
		<-loaded
		l.Release()
	}()
}

// leave removes a user that has not used the model. The model stays loaded.
func (p *Pool) leave(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.out()
	p.freed()
}

// release removes a user and starts the keep-alive time.
func (p *Pool) release(e *entry, keep *time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.out()
	if e.state != Loaded {
		return
	}
	e.used = time.Now()
	p.freed()
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
