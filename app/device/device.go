// Package device is the only place that names backends.
package device

import (
	"fmt"
	"strings"

	"godwit/engine/backend"
	"godwit/engine/cpu"
)

// drivers lists the backends of this build, the preferred first.
func drivers() []backend.Driver { return append(gpus(), cpu.Driver{}) }

// Names lists the backends of this build.
func Names() []string {
	var names []string
	for _, d := range drivers() {
		names = append(names, d.Name())
	}
	return names
}

// Driver returns the backend of that name; auto takes the first that has a device.
func Driver(name string) (backend.Driver, error) {
	for _, d := range drivers() {
		if d.Name() == name {
			return d, nil
		}
		if name != "auto" && name != "" {
			continue
		}
		if list, err := d.Devices(); err == nil && len(list) > 0 {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: backend %s; there are %s", backend.ErrNotBuilt, name, strings.Join(Names(), ", "))
}

// CPU describes the processor.
func CPU() (backend.Info, error) {
	list, err := cpu.Driver{}.Devices()
	if err != nil {
		return backend.Info{}, err
	}
	return list[0], nil
}
