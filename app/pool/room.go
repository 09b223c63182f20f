package pool

import (
	"godwit/app/hub"
	"godwit/engine"
)

// widen returns the options of a load with a context of at least the given number
// of tokens.
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

// grow makes the next load use a context of at least the given length. If the
// model is loaded with a shorter context, grow starts or schedules its unload
// and returns a channel to wait on. It returns nil if there is nothing to wait
// for. The caller holds p.mu.
func (p *Pool) grow(info hub.Model, least int) <-chan struct{} {
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
	e.vacate()
	if e.idle == nil { // later requests must wait too, because the model would otherwise never become idle
		e.idle = make(chan struct{})
	}
	return e.idle
}

// renew makes every loaded model reload before its next use, after its current
// users have released it.
func (p *Pool) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		switch e.state {
		case Loaded:
			e.vacate()
			if e.stale = true; e.users == 0 {
				p.unload(e)
			}
		case Loading:
			e.stale = true
		}
	}
}

// Fits returns an engine.MemoryError if a context does not fit even after the
// loaded model is unloaded.
func (p *Pool) Fits(m *hub.Model, least int) error {
	p.mu.Lock()
	var now *engine.Engine
	if e := p.entries[m.Path]; e != nil && e.state == Loaded {
		now = e.engine
	}
	p.mu.Unlock()
	if now == nil || least <= now.Context() {
		return nil
	}
	o, err := p.Options(m.Path)
	if err != nil {
		return err
	}
	o = widen(o, least)
	return engine.Fits(m.Path, o, p.o.Free(m.Path, &o))
}

// backend returns the name of the backend that the next load of a model uses, or ""
// if its options are wrong.
func (p *Pool) backend(next *entry) string {
	o, err := p.o.Engine(next.info.Path)
	if err != nil {
		return ""
	}
	return o.BackendName()
}

// makeRoom unloads idle models of the same backend, least recently used first, until
// its device has room for the file of the next model.
func (p *Pool) makeRoom(next *entry) {
	on := p.backend(next)
	for {
		p.mu.Lock()
		var free int64
		for _, e := range p.entries {
			if e.state == Loaded && e != next && e.engine.Device().Backend == on {
				free = e.engine.Free()
			}
		}
		p.mu.Unlock()
		// twice the size, because repacked weights and the cache need about as
		// much as the file
		if free == 0 || free > 2*next.info.Size || !p.unloadOldest(next, on) {
			return
		}
	}
}

// unloadOldest unloads the least recently used idle model of a backend, or of any
// if on is "", and waits for it. It returns false if every such model is in use.
func (p *Pool) unloadOldest(next *entry, on string) bool {
	p.mu.Lock()
	var oldest *entry
	for _, e := range p.entries {
		if e.state == Loaded && e != next && e.users == 0 && (on == "" || e.engine.Device().Backend == on) && (oldest == nil || e.used.Before(oldest.used)) {
			oldest = e
		}
	}
	if oldest == nil {
		p.mu.Unlock()
		return false
	}
	p.log.Info("unloading a model to make room", "model", oldest.info.Name, "bytes", next.info.Size)
	done := p.unload(oldest)
	p.mu.Unlock()
	<-done
	return true
}
