//go:build darwin && cgo

// Package metal runs the kernels on the GPUs of Macs. Weights are used in place:
// buffers cover the pages of the mapped file.
package metal

import (
	"errors"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/gpu"
	"godwit/metal/mtl"
)

// Built reports whether this build supports Metal.
const Built = true

// Driver is the driver of Metal's devices.
func Driver() backend.Driver {
	return gpu.Driver{Kind: "metal", List: list, Connect: connect}
}

func list() ([]backend.Info, error) {
	all, err := mtl.Devices()
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	var infos []backend.Info
	for _, d := range all {
		infos = append(infos, describe(d))
		d.Release()
	}
	return infos, nil
}

// describe describes a GPU. Its memory is the most that programs should use.
func describe(d *mtl.Device) backend.Info {
	detail := d.Name()
	if !d.Unified() {
		detail += ", memory of its own"
	}
	return backend.Info{
		Backend: "metal", Device: d.Name(), Detail: detail,
		Memory: d.WorkingSet(), Free: max(0, d.WorkingSet()-d.Allocated()),
	}
}

func connect(i int) (gpu.Device, error) {
	all, err := mtl.Devices()
	if err != nil {
		return nil, fmt.Errorf("metal: %w", err)
	}
	for j, d := range all {
		if j != i {
			d.Release()
		}
	}
	if i < 0 || i >= len(all) {
		return nil, fmt.Errorf("metal: there is no device %d of %d", i, len(all))
	}
	d := &device{gpu: all[i], words: new(mtl.Words)}
	if d.queue, err = d.gpu.Queue(); err == nil {
		d.resident, err = d.gpu.Residency(d.queue)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("metal: %w", err), d.Close())
	}
	return d, nil
}
