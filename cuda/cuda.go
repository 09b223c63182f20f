//go:build linux || windows

// Package cuda runs the kernels on NVIDIA cards through the CUDA driver API, and on
// AMD cards through HIP's API, which has the same shape. It opens the driver's
// library when a device is needed. No toolkit is needed. A machine without a driver
// gets an error that says so.
//
// NVIDIA's driver compiles the PTX in this package. AMD's kernels are compiled at
// first use by hiprtc, which comes with the driver, and cached on disk.
package cuda

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"godwit/engine/backend"
	"godwit/engine/gpu"
)

// Classes of errors about machines that cannot run kernels.
var (
	errNone = errors.New("no driver")
	errOld  = errors.New("the driver is too old")
)

const (
	// minDriver is the first version of the driver API that accepts the PTX.
	minDriver = 11080
	// minCapability is the compute capability for which the PTX is made. 75
	// stands for 7.5.
	minCapability = 75
	// mmaCapability is the lowest compute capability with 16 by 16 matrix
	// multiplication.
	mmaCapability = 80
)

// Built reports whether this build supports CUDA and HIP.
const Built = true

// NVIDIA is the driver of NVIDIA cards.
func NVIDIA() backend.Driver { return driver("cuda", loadNVIDIA) }

// AMD is the driver of AMD cards.
func AMD() backend.Driver { return driver("hip", loadAMD) }

// The libraries are opened once, at the first use.
var (
	loadNVIDIA = sync.OnceValues(func() (*api, error) { return load(nvidia) })
	loadAMD    = sync.OnceValues(func() (*api, error) { return load(amd) })
)

// HasNVIDIA reports whether NVIDIA's driver is installed. It does not start the
// driver.
func HasNVIDIA() bool { return has(nvidia) }

// HasAMD reports whether AMD's driver is installed. It does not start the
// driver.
func HasAMD() bool { return has(amd) }

func has(f flavor) bool {
	_, err := library(libraries[f])
	return err == nil
}

func driver(kind string, load func() (*api, error)) backend.Driver {
	return gpu.Driver{
		Kind: kind,
		List: func() ([]backend.Info, error) {
			a, err := load()
			if errors.Is(err, errNone) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			list, err := a.devices(kind)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			return list, nil
		},
		Connect: func(i int) (gpu.Device, error) {
			a, err := load()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", kind, err)
			}
			d, err := a.open(kind, i)
			if err != nil {
				return nil, fmt.Errorf("%s: device %d: %w", kind, i, err)
			}
			return d, nil
		},
	}
}

// load opens the library and initialises it.
func load(f flavor) (*api, error) {
	find, err := library(libraries[f])
	if err != nil {
		return nil, err
	}
	a := &api{flavor: f}
	if err := a.bind(find); err != nil {
		return nil, err
	}
	return a, a.begin()
}

// begin initialises the library and checks its version.
func (a *api) begin() error {
	if err := a.call("init", a.start, 0); err != nil {
		if says(err, noDevice, invalidDevice) {
			return nil // there is no device to list
		}
		return err
	}
	var version int32
	if err := a.call("version", a.version, uintptr(unsafe.Pointer(&version))); err != nil {
		return err
	}
	if a.flavor == nvidia && version < minDriver {
		return fmt.Errorf("%w: it supports CUDA %d.%d, but %d.%d or newer is required", errOld,
			version/1000, version%1000/10, minDriver/1000, minDriver%1000/10)
	}
	return nil
}

// card is a device of the driver.
type card struct {
	handle     int32
	name       string
	memory     int64
	capability int // compute capability, such as 75 for 7.5
	processors int
}

// Attribute numbers of the driver API, by flavor.
var (
	attrMajor      = [2]uintptr{75, 23}
	attrMinor      = [2]uintptr{76, 61}
	attrProcessors = [2]uintptr{16, 63}
)

// cards returns the number of cards.
func (a *api) cards() (int, error) {
	var n int32
	if err := a.call("count devices", a.count, uintptr(unsafe.Pointer(&n))); err != nil && !says(err, noDevice, notInitialized) {
		return 0, err
	}
	return int(n), nil
}

// devices lists the cards.
func (a *api) devices(kind string) ([]backend.Info, error) {
	n, err := a.cards()
	if err != nil {
		return nil, err
	}
	var list []backend.Info
	for i := range n {
		c, err := a.card(i)
		if err != nil {
			return nil, err
		}
		list = append(list, a.info(kind, c))
	}
	return list, nil
}

// card reads the properties of a card.
func (a *api) card(i int) (*card, error) {
	c := &card{}
	if err := a.call("device", a.device, uintptr(unsafe.Pointer(&c.handle)), uintptr(i)); err != nil {
		return nil, err
	}
	var name [256]byte
	if err := a.call("device name", a.name, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), uintptr(c.handle)); err != nil {
		return nil, err
	}
	n := 0
	for n < len(name) && name[n] != 0 {
		n++
	}
	c.name = string(name[:n])
	if err := a.call("device memory", a.total, uintptr(unsafe.Pointer(&c.memory)), uintptr(c.handle)); err != nil {
		return nil, err
	}
	var major, minor, processors int32
	for _, q := range []struct {
		to *int32
		at uintptr
	}{{&major, attrMajor[a.flavor]}, {&minor, attrMinor[a.flavor]}, {&processors, attrProcessors[a.flavor]}} {
		if err := a.call("device attribute", a.attribute, uintptr(unsafe.Pointer(q.to)), q.at, uintptr(c.handle)); err != nil {
			return nil, err
		}
	}
	c.capability, c.processors = int(major*10+minor), int(processors)
	return c, nil
}

func (a *api) info(kind string, c *card) backend.Info {
	what := "compute capability"
	if a.flavor == amd {
		what = "compute level"
	}
	return backend.Info{
		Backend: kind, Device: c.name, Memory: c.memory,
		Detail: fmt.Sprintf("%s, %s %d.%d, %d processors", c.name, what, c.capability/10, c.capability%10, c.processors),
	}
}
