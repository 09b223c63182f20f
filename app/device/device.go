// Package device is the only place that names backends.
package device

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"godwit/engine/backend"
	"godwit/engine/cpu"
	"godwit/engine/gpu"
	"godwit/metal"
	"godwit/shaders/emu"
)

// drivers lists the backends of this build, the preferred first. The emulator
// is for those who name it.
func drivers() []backend.Driver { return append(gpus(), cpu.Driver{}, emulator()) }

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
		if d.Name() != "metal" || metal.Built {
			names = append(names, d.Name())
		}
	}
	return names
}

// Driver returns the backend of that name. auto takes the first that has a
// device, never the emulator; skipped says why those before it could not be
// asked.
func Driver(name string) (d backend.Driver, skipped, err error) {
	if name == "auto" || name == "" {
		var errs []error
		for _, d := range append(gpus(), cpu.Driver{}) {
			list, err := d.Devices()
			if err == nil && len(list) > 0 {
				return d, errors.Join(errs...), nil
			}
			errs = append(errs, err)
		}
		return nil, nil, errors.Join(errs...)
	}
	list := drivers()
	i := slices.IndexFunc(list, func(d backend.Driver) bool { return d.Name() == name })
	if i < 0 {
		return nil, nil, fmt.Errorf("%w: backend %s; there are %s", backend.ErrNotBuilt, name, strings.Join(Names(), ", "))
	}
	return list[i], nil, nil
}

// CPU describes the processor.
func CPU() (backend.Info, error) {
	list, err := cpu.Driver{}.Devices()
	if err != nil {
		return backend.Info{}, err
	}
	return list[0], nil
}
