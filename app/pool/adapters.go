package pool

import (
	"sync"

	"godwit/engine"
)

// adapters are the scales of LoRA adapters that clients have set, by path.
type adapters struct {
	mu sync.Mutex
	by map[string]float32
}

// Adapters lists the adapters of the options with the scales in use.
func (p *Pool) Adapters() ([]engine.LoRA, error) {
	o, err := p.o.Engine()
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

// SetAdapters sets scales by path. Models are loaded again once their users are gone.
func (p *Pool) SetAdapters(by map[string]float32) {
	p.adapters.mu.Lock()
	p.adapters.by = by
	p.adapters.mu.Unlock()
	p.renew()
}

// apply returns the adapters with these scales, without the ones of scale 0.
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
