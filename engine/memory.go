package engine

import (
	"slices"
	"sync"
	"time"

	"godwit/engine/backend"
	"godwit/engine/cpu"
)

// HostMemory returns the maximum memory that this process may use, in bytes, or 0
// if unknown.
func HostMemory() int64 {
	list, err := (cpu.Driver{}).Devices()
	if err != nil || len(list) == 0 {
		return 0
	}
	return list[0].Memory
}

// Memory counts the memory that the models of one process have reserved on the host
// but not touched yet, because the system still reports it as free. Engines that
// share one Memory never reserve the same bytes twice. The zero value is ready, and
// nil counts nothing.
type Memory struct {
	Ledger Ledger // reservations of all the user's processes; nil counts only this process. Set before use.
	Budget int64  // host memory for models and stored prefixes; 0 for no bound. Set before use.
	// Left is called with the unreserved part of the budget, after every change and
	// before a load takes its memory. It must not call the engine. It may be nil.
	Left func(bytes int64)

	mu        sync.Mutex
	claims    []*claim
	published int64 // bytes of this process in the ledger
	renewing  bool  // a timer is set to publish
}

// Ledger shares between processes how much host memory is reserved but not touched
// yet. Its methods are safe for concurrent use.
type Ledger interface {
	// Alone calls f with the bytes of other processes. No other process runs its f
	// at the same time.
	Alone(f func(others int64))
	// Others returns the bytes of other processes.
	Others() int64
	// Publish sets this process's bytes.
	Publish(own int64)
}

// renewal is the interval at which a process corrects its bytes in the ledger. Between
// corrections the ledger may hold too many bytes, never too few.
const renewal = 5 * time.Second

// claim is the memory that one program has reserved.
type claim struct {
	path    string
	backend string         // backend of the model's device
	need    backend.Memory // planned sizes; after the load, the real sizes
	loading bool
	share   float64         // weights in place, from 0 to 1, while loading
	touch   backend.Toucher // nil if unknown, or if nothing is untouched
}

// untouched returns the bytes of a claim that the system still reports as free.
func (c *claim) untouched() int64 {
	switch {
	case c.loading:
		return c.need.Total() - int64(c.share*float64(c.need.Weights))
	case c.touch != nil:
		return c.touch.Untouched()
	}
	return 0
}

// Free returns the memory that a load can take on a device: what the device
// reports, minus what is reserved there but not touched yet. The model at path, if
// it is loaded, counts as unloaded.
func (a *Memory) Free(i backend.Info, path string) int64 {
	if i.Free <= 0 || a == nil {
		return spare(i)
	}
	others := int64(0)
	if a.Ledger != nil {
		others = a.Ledger.Others()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.free(i, path, others)
}

// free is Free, given the bytes that other processes have reserved on the host.
func (a *Memory) free(i backend.Info, path string, others int64) int64 {
	free := spare(i)
	if free <= 0 {
		return free
	}
	if i.Backend == cpu.Name {
		free -= min(others, free)
	}
	for _, c := range a.claims {
		open := c.untouched()
		switch {
		case path != "" && c.path == path && c.backend == i.Backend:
			free += c.need.Total() - open
		case path != "" && c.path == path:
		case i.Backend == cpu.Name || c.backend == i.Backend:
			free -= open
		}
	}
	if i.Memory > 0 {
		free = min(free, i.Memory)
	}
	return a.within(i, max(free, 1), path) // 0 would mean unknown
}

// claim plans a load within the free memory and reserves what it needs, in one
// step. If two loads run at once, in one process or two, the second sees the first
// one's reservation.
func (a *Memory) claim(path string, i backend.Info, prepare func(free int64) (*Prepared, error)) (p *Prepared, c *claim, err error) {
	if a == nil {
		p, err := prepare(spare(i))
		return p, nil, err
	}
	reserve := func(others int64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if p, err = prepare(a.free(i, "", others)); err != nil {
			p = nil
			return
		}
		c = &claim{path: path, backend: i.Backend, need: p.Need, loading: true}
		a.claims = append(a.claims, c)
		a.changed()
	}
	if a.Ledger == nil {
		reserve(0)
	} else {
		a.Ledger.Alone(reserve)
	}
	return p, c, err
}

// publish writes the bytes of all claims that are reserved but not touched to the
// ledger, at once and then in the background until no claim is left. The caller holds
// the lock, so that an older value never replaces a newer one.
func (a *Memory) publish() {
	if a.Ledger == nil {
		return
	}
	sum := int64(0)
	for _, c := range a.claims {
		sum += c.untouched()
	}
	if sum != a.published {
		a.published = sum
		a.Ledger.Publish(sum)
	}
	if a.renewing || len(a.claims) == 0 {
		return
	}
	a.renewing = true
	time.AfterFunc(renewal, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.renewing = false
		a.publish()
	})
}

// progress records the share of a claim's weights that is in place.
func (a *Memory) progress(c *claim, share float64) {
	if c == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c.share = share
}

// loaded replaces a claim's planned sizes with the real sizes of its program.
func (a *Memory) loaded(c *claim, p backend.Program) {
	if c == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	held := p.Memory()
	if c.need.Weights == 0 {
		held.Weights = 0 // the weights belong to another program
	}
	c.loading, c.need = false, held
	c.touch, _ = p.(backend.Toucher)
	a.changed()
}

// drop ends a claim, before its program is closed.
func (a *Memory) drop(c *claim) {
	if c == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.claims = slices.DeleteFunc(a.claims, func(x *claim) bool { return x == c })
	a.changed()
}
