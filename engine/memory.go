package engine

import (
	"slices"
	"sync"

	"godwit/engine/backend"
)

// Memory counts what the models of one process have reserved on the host and not
// touched yet, since the system still calls that free. Engines that share one
// never promise the same bytes twice. The zero value is ready, and nil counts
// nothing.
type Memory struct {
	mu     sync.Mutex
	claims []*claim
}

// claim is what one program has reserved.
type claim struct {
	path    string
	backend string         // of its device
	need    backend.Memory // planned, then real
	loading bool
	share   float64         // weights in place, from 0 to 1, while loading
	touch   backend.Toucher // nil: unknown, or nothing is left untouched
}

// untouched is the part that the system still calls free.
func (c *claim) untouched() int64 {
	switch {
	case c.loading:
		return c.need.Total() - int64(c.share*float64(c.need.Weights))
	case c.touch != nil:
		return c.touch.Untouched()
	}
	return 0
}

// Free is the memory that a load can take on a device: what the device says, less
// what is reserved there and not touched yet. The model at path, if it is loaded,
// counts as unloaded.
func (a *Memory) Free(i backend.Info, path string) int64 {
	if i.Free <= 0 || a == nil {
		return i.Free
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free(i, path)
}

func (a *Memory) free(i backend.Info, path string) int64 {
	free := i.Free
	if free <= 0 {
		return free
	}
	for _, c := range a.claims {
		open := c.untouched()
		switch {
		case path != "" && c.path == path && c.backend == i.Backend:
			free += c.need.Total() - open
		case path != "" && c.path == path:
		case i.Backend == "cpu" || c.backend == i.Backend:
			free -= open
		}
	}
	if i.Memory > 0 {
		free = min(free, i.Memory)
	}
	return max(free, 1) // 0 would be unknown
}

// claim prepares a load against what is free and reserves what it needs, as one
// step: of two loads at the same time the second sees the first.
func (a *Memory) claim(path string, i backend.Info, prepare func(free int64) (*Prepared, error)) (*Prepared, *claim, error) {
	if a == nil {
		p, err := prepare(i.Free)
		return p, nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p, err := prepare(a.free(i, ""))
	if err != nil {
		return nil, nil, err
	}
	c := &claim{path: path, backend: i.Backend, need: p.Need, loading: true}
	a.claims = append(a.claims, c)
	return p, c, nil
}

// progress notes how much of the weights a claim has in place.
func (a *Memory) progress(c *claim, share float64) {
	if c == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c.share = share
}

// loaded gives a claim its program.
func (a *Memory) loaded(c *claim, p backend.Program) {
	if c == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	held := p.Memory()
	if c.need.Weights == 0 {
		held.Weights = 0 // another program's
	}
	c.loading, c.need = false, held
	c.touch, _ = p.(backend.Toucher)
}

// drop ends a claim, before its program is closed.
func (a *Memory) drop(c *claim) {
	if c == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims = slices.DeleteFunc(a.claims, func(x *claim) bool { return x == c })
}
