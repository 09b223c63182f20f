package pool

import (
	"context"
	"time"
)

// wayTime is how long a load waits for models in use to become idle.
const wayTime = 20 * time.Second

// freed notifies loads that wait for memory. The caller holds p.mu.
func (p *Pool) freed() {
	if p.free != nil {
		close(p.free)
		p.free = nil
	}
}

// makeWay unloads an idle model for a load that lacks memory. If all models are
// in use, it waits for one to become idle until late fires. gone is false if no
// model could be unloaded. held reports whether models in use occupy the
// memory.
func (p *Pool) makeWay(ctx context.Context, next *entry, late <-chan time.Time) (gone, held bool) {
	defer func() { // when makeWay returns, other loads count next again as a model that occupies memory
		p.mu.Lock()
		defer p.mu.Unlock()
		next.waits = false
	}()
	on := p.backend(next)
	for {
		if on != "" && p.unloadOldest(next, on) || p.unloadOldest(next, "") {
			return true, false
		}
		p.mu.Lock()
		held = false
		for _, e := range p.entries {
			if e != next {
				e.vacate()
			}
			held = held || e != next && !e.waits && (e.state == Loaded || e.state == Loading || e.state == Unloading)
		}
		if p.free == nil {
			p.free = make(chan struct{})
		}
		free := p.free
		next.waits = held
		p.mu.Unlock()
		if !held {
			return false, false
		}
		select {
		case <-free:
		case <-late:
			return false, true
		case <-ctx.Done():
			return false, false
		}
	}
}
