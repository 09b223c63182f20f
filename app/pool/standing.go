package pool

import (
	"slices"
	"strings"
	"time"

	"godwit/app/hub"
	"godwit/engine"
)

// State is the state of a model.
type State string

// The states of a model.
const (
	Unloaded  State = "unloaded"
	Loading   State = "loading"
	Loaded    State = "loaded"
	Unloading State = "unloading"
	Failed    State = "failed" // the last load failed; the next request tries again
)

// Standing is the status of a model file.
type Standing struct {
	State   State
	Err     error          // error of the last load
	Context int            // context of the loaded model in tokens
	Bytes   int64          // weights and cache of the loaded model
	Until   time.Time      // time of the unload; zero without one, or while in use
	Options engine.Options // options of the last load
	Wanted  bool           // whether a load or an unload waits for the model's users
}

// Model is a model that requests can name, with its state.
type Model struct {
	hub.Model
	Standing
}

// Loaded reports whether the model is loaded.
func (m *Model) Loaded() bool { return m.State == Loaded }

// Publisher returns the publisher of a model from a hub, and "local" for other models.
func (m *Model) Publisher() string {
	if name, _, ok := strings.Cut(m.Ref, "/"); ok {
		return name
	}
	return "local"
}

// Standing returns the status of the model at a path.
func (p *Pool) Standing(path string) Standing {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[path]
	if e == nil {
		return Standing{State: Unloaded}
	}
	st := Standing{State: e.state, Err: e.err, Until: e.until, Options: e.options, Wanted: e.idle != nil}
	if e.engine != nil {
		st.Context, st.Bytes = e.engine.Context(), e.engine.KV().Bytes()+e.info.Size
	}
	return st
}

// Models lists the models that requests can name.
func (p *Pool) Models() ([]Model, error) {
	list, err := p.list()
	if err != nil {
		return nil, err
	}
	out := make([]Model, len(list))
	for i := range list {
		out[i] = Model{list[i], p.Standing(list[i].Path)}
	}
	return out, nil
}

// busy reports whether a model is in use or being loaded.
func (p *Pool) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.entries {
		if e.users > 0 || e.state == Loading {
			return true
		}
	}
	return false
}

// Health reports whether the model of Options.Model has been loaded. If its load
// failed, err is the reason. Without such a model, ready is true.
func (p *Pool) Health() (ready bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fixed == nil || p.fixed.used != (time.Time{}) {
		return true, nil
	}
	return false, p.fixed.err
}

// Usage holds sums over all loaded models: their cells, and their attention
// counters since the load. The counters are the values that Sparse V tested and
// skipped, and the blocks with a saturated scale.
type Usage struct {
	Models, Busy, Queued, Tokens, Cells, Free int
	Considered, Skipped, Saturated            int64
}

// Share returns the share of the cells that is in use.
func (u *Usage) Share() float64 {
	if u.Cells == 0 {
		return 0
	}
	return float64(u.Cells-u.Free) / float64(u.Cells)
}

// Usage sums the current values of the loaded models without waiting for any.
func (p *Pool) Usage() (u Usage) {
	p.mu.Lock()
	var open []*engine.Engine
	for _, e := range p.entries {
		if e.state == Loaded {
			open = append(open, e.engine)
		}
	}
	p.mu.Unlock()
	for _, e := range open {
		view, err := e.View()
		if err != nil {
			continue // the model is being unloaded
		}
		u.Models++
		u.Queued += view.Queued
		u.Free += view.Free
		for _, c := range view.Counts {
			u.Considered += c.Considered
			u.Skipped += c.Skipped
			for _, n := range c.Saturated {
				u.Saturated += n
			}
		}
		u.Cells += e.KV().Settings.Cells
		for _, sl := range view.Slots {
			u.Tokens += sl.Tokens
			if sl.Busy {
				u.Busy++
			}
		}
	}
	return u
}

// Embeds reports whether a model only makes embeddings, because its file says so or
// its architecture can do nothing else.
func Embeds(m *hub.Model) bool { return m.NonCausal || engine.Encoder(m.Arch) }

// Holding is the memory that a loaded model uses on its device, in bytes.
type Holding struct {
	Model     string `json:"model"`
	Backend   string `json:"backend"`   // backend of the device, such as cpu or cuda
	Host      bool   `json:"host"`      // whether the device's memory is that of the host
	Weights   int64  `json:"weights"`   // copied weights, without weights that are read from the mapped file
	Cells     int64  `json:"cells"`     // packed pages
	Exact     int64  `json:"exact"`     // exact pages and pinned rows
	States    int64  `json:"states"`    // recurrent states
	Scratch   int64  `json:"scratch"`   // intermediate results
	Untouched int64  `json:"untouched"` // unused part of cells, exact pages and states, which occupies no memory yet
}

// Holdings lists the memory of the loaded models.
func (p *Pool) Holdings() (list []Holding) {
	p.mu.Lock()
	defer p.mu.Unlock() // held so that the models stay open
	for _, e := range p.entries {
		if e.state == Loaded {
			h := e.engine.Holding()
			on := e.engine.Device()
			list = append(list, Holding{e.info.Name, on.Backend, engine.OnHost(on), h.Weights, h.Cells, h.Exact, h.States, h.Scratch, h.Untouched})
		}
	}
	slices.SortFunc(list, func(a, b Holding) int { return strings.Compare(a.Model, b.Model) })
	return list
}

// Device is the memory of a device that is not the host's, in bytes.
type Device struct {
	Backend string `json:"backend"`
	Device  string `json:"device"` // name of the device
	Memory  int64  `json:"memory"` // total memory; 0 if unknown
	Free    int64  `json:"free"`   // free memory for another load, without a reserve for the driver; 0 if unknown
	Models  int64  `json:"models"` // memory held by loaded models
}

// Devices lists the devices other than the CPU that have a loaded model.
func (p *Pool) Devices() (list []Device) {
	p.mu.Lock()
	defer p.mu.Unlock() // held so that the models stay open
	for _, e := range p.entries {
		if e.state != Loaded {
			continue
		}
		on := e.engine.Device()
		if engine.OnHost(on) {
			continue
		}
		i := slices.IndexFunc(list, func(d Device) bool { return d.Backend == on.Backend && d.Device == on.Device })
		if i < 0 {
			i = len(list)
			list = append(list, Device{Backend: on.Backend, Device: on.Device, Memory: on.Memory, Free: e.engine.Free()})
		}
		h := e.engine.Holding()
		list[i].Models += h.Weights + h.Cells + h.Exact + h.States + h.Scratch
	}
	slices.SortFunc(list, func(a, b Device) int { return strings.Compare(a.Backend+a.Device, b.Backend+b.Device) })
	return list
}
