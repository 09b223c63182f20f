package engine

import (
	"context"
	"errors"

	"godwit/engine/backend"
	"godwit/engine/backend/split"
	"godwit/engine/cpu"
)

// device opens the device, and also the CPU if the device runs only the last layers.
func (m *Model) device(o Options) (backend.Backend, error) {
	host := cpu.Driver{}
	if !onDevice(o) {
		return host.Open(0, o.backend())
	}
	onHost := m.hostLayers(o)
	b, err := o.Driver.Open(o.Device, o.backend())
	if err != nil || onHost == 0 || o.Driver.Name() == host.Name() {
		return b, err
	}
	first, err := host.Open(0, o.backend())
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return split.New(first, b, onHost), nil
}

// hostLayers returns the number of leading layers that always run on the CPU.
func (m *Model) hostLayers(o Options) int {
	if o.GPULayers == nil {
		return 0
	}
	return max(0, m.Config().Layers-max(0, *o.GPULayers))
}

// deviceError is the reason why a device other than the CPU cannot run a model.
type deviceError struct{ error }

func (e *deviceError) Unwrap() error { return e.error }

// otherDevice marks an error of a device other than the CPU.
func otherDevice(o Options, err error) error {
	if err == nil || errors.Is(err, backend.ErrDamaged) || !onDevice(o) || o.Driver.Name() == (cpu.Driver{}).Name() || errors.Is(err, context.Canceled) {
		return err
	}
	return &deviceError{err}
}

// unableDevice is otherDevice for an error from before the device was used. Such an
// error may be about the options instead.
func unableDevice(o Options, err error) error {
	if errors.Is(err, ErrMemory) || errors.Is(err, backend.ErrUnsupported) {
		return otherDevice(o, err)
	}
	return err
}
