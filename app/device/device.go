// Package device is the only place that names backends.
package device

import (
	"fmt"
	"slices"
	"strings"

	"godwit/app/config"
	"godwit/cuda"
	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/gpu"
	"godwit/metal"
	"godwit/shaders/emu"
)

// entry is a backend.
type entry struct {
	backend.Driver
	built bool // the backend can run in this build; otherwise its driver returns an error
	// installed reports whether the backend's library is installed, so that Auto
	// may choose it. nil means that Auto never chooses it.
	installed func() bool
	byName    bool // listed only if its name is given
}

// backends are all backends. Auto tries them in this order. A new backend needs
// only an entry here.
var backends = []entry{
	{Driver: cpu.Driver{}, built: true},
	{Driver: metal.Driver(), built: metal.Built, installed: func() bool { return metal.Built }},
	{Driver: cuda.NVIDIA(), built: cuda.Built, installed: cuda.HasNVIDIA},
	{Driver: cuda.AMD(), built: cuda.Built, installed: cuda.HasAMD},
	{Driver: emulator(), built: emu.Built, byName: true},
}

func init() {
	choices := []string{"auto"}
	for _, e := range backends {
		choices = append(choices, e.Name())
	}
	config.Offer("backends", choices)
}

// emulator runs the GPU kernels on the CPU.
func emulator() backend.Driver {
	open := func() (gpu.Device, error) { return emu.Open(emu.Options{}) }
	return gpu.Driver{
		Kind: "emu",
		List: func() ([]backend.Info, error) {
			d, err := open()
			if err != nil {
				return nil, err
			}
			return []backend.Info{d.Info()}, d.Close()
		},
		Connect: func(i int) (gpu.Device, error) {
			if i != 0 {
				return nil, fmt.Errorf("emu: there is no device %d", i)
			}
			return open()
		},
	}
}

// Names lists the backends of this build.
func Names() []string {
	var names []string
	for _, e := range backends {
		if e.built {
			names = append(names, e.Name())
		}
	}
	return names
}

// Named returns the backend with a name. It does not access a device.
func Named(name string) (backend.Driver, error) {
	i := slices.IndexFunc(backends, func(e entry) bool { return e.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: backend %s; available: %s", backend.ErrNotBuilt, name, strings.Join(Names(), ", "))
	}
	return backends[i].Driver, nil
}

// Found describes what a backend finds on this machine.
type Found struct {
	Backend string         `json:"backend"`
	Devices []backend.Info `json:"devices"`
	Error   string         `json:"error,omitempty"`
	Verdict *Verdict       `json:"verdict,omitempty"` // last verdict of this program; nil for none
}

// List queries every backend of this build for its devices, or only the backend
// with the given name. The emulator is queried only by name.
func List(r Record, name string) ([]Found, error) {
	kept, err := r.Verdicts()
	all := []Found{}
	for _, d := range backends {
		if !d.built || name != "" && d.Name() != name || name == "" && d.byName {
			continue
		}
		f := Found{Backend: d.Name(), Devices: []backend.Info{}}
		list, err := d.Devices()
		if err != nil {
			f.Error = err.Error()
		}
		f.Devices = append(f.Devices, list...)
		if v, ok := kept[d.Name()]; ok && v.Binary == binary() {
			f.Verdict = &v
		}
		all = append(all, f)
	}
	return all, err
}

// CPU describes the processor.
func CPU() (backend.Info, error) {
	list, err := cpu.Driver{}.Devices()
	if err != nil {
		return backend.Info{}, err
	}
	return list[0], nil
}
