package pool

import (
	"sync"

	"godwit/engine"
)

// adapters holds the LoRA scales that clients have set, by adapter path.
type adapters struct {
	mu sync.Mutex
	by map[string]float32
}

// Adapters lists the adapters in the options with their current scales.
func (p *Pool) Adapters() ([]engine.LoRA, error) {
	o, err := p.o.Engine("")
	if err != nil {
		return nil, err
	}
	a := &p.adapters
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]engine.LoRA, len(o.LoRA))
	for i, l := range o.LoRA {
		if l.Scale == 0 {
			l.Scale = 1
		}
		if x, ok := a.by[l.Path]; ok {
			l.Scale = x
		}
		out[i] = l
	}
	return out, nil
}

// SetAdapters sets scales by path. To apply them, a loaded model is loaded
// again once it is no longer in use.
func (p *Pool) SetAdapters(by map[string]float32) {
	p.adapters.mu.Lock()
	p.adapters.by = by
	p.adapters.mu.Unlock()
	p.renew()
}

// apply returns the adapters with the scales that clients have set, without
// adapters of scale 0.
func (a *adapters) apply(list []engine.LoRA) []engine.LoRA {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.by == nil {
		return list
	}
	out := []engine.LoRA{}
	for _, l := range list {
		if x, ok := a.by[l.Path]; ok {
			l.Scale = x
			if x == 0 {
				continue
			}
		}
		out = append(out, l)
	}
	return out
}
