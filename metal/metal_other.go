//go:build !darwin || !cgo

// Package metal runs the kernels on GPUs of Macs.
package metal

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/gpu"
)

// Built reports whether this build supports Metal.
const Built = false

// Driver is the driver of a build without Metal. It has no devices, and its error
// says what a build needs.
func Driver() backend.Driver {
	return gpu.Driver{
		Kind: "metal",
		List: func() ([]backend.Info, error) { return nil, nil },
		Connect: func(int) (gpu.Device, error) {
			return nil, fmt.Errorf("%w: metal: it needs macOS and a build with cgo", backend.ErrNotBuilt)
		},
	}
}
