// Package device is the only place that names backends.
package device

import (
	"fmt"
	"slices"
	"strings"

	"godwit/cuda"
	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/gpu"
	"godwit/metal"
	"godwit/shaders/emu"
)

// drivers lists all backends, also those that this build has only as a refusal.
func drivers() []backend.Driver {
	return []backend.Driver{cpu.Driver{}, metal.Driver(), cuda.NVIDIA(), cuda.AMD(), emulator()}
}

// built says which backends can run here.
var built = map[string]bool{"cpu": true, "metal": metal.Built, "cuda": cuda.Built, "hip": cuda.Built, "emu": emu.Built}

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
	for _, d := range drivers() {
		if built[d.Name()] {
			names = append(names, d.Name())
		}
	}
	return names
}

// Named returns the backend of that name. It asks no device.
func Named(name string) (backend.Driver, error) {
	list := drivers()
	i := slices.IndexFunc(list, func(d backend.Driver) bool { return d.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: backend %s; there are %s", backend.ErrNotBuilt, name, strings.Join(Names(), ", "))
	}
	return list[i], nil
}

// candidates are the backends that Auto may choose, the first that is right.
func candidates() []candidate {
	return []candidate{
		{metal.Driver(), func() bool { return metal.Built }},
		{cuda.NVIDIA(), cuda.HasNVIDIA},
		{cuda.AMD(), cuda.HasAMD},
	}
}

// Found is what a backend has on this machine.
type Found struct {
	Backend string         `json:"backend"`
	Devices []backend.Info `json:"devices"`
	Error   string         `json:"error,omitempty"`
	Verdict *Verdict       `json:"verdict,omitempty"` // the last of this program; nil: none
}

// List asks every backend of this build for its devices, or only the one of that
// name; the emulator is asked only by name.
func List(r Record, name string) ([]Found, error) {
	kept, err := r.Verdicts()
	all := []Found{}
	for _, d := range drivers() {
		if name != "" && d.Name() != name || !built[d.Name()] || name == "" && d.Name() == "emu" {
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
