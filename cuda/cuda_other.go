//go:build !linux && !windows

// Package cuda runs the kernels on NVIDIA and AMD cards.
package cuda

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/gpu"
)

// Built reports whether this build supports CUDA and HIP.
const Built = false

// NVIDIA is the driver of a build without CUDA. It has no devices, and its error
// says what a build needs.
func NVIDIA() backend.Driver { return none("cuda") }

// AMD is the driver of a build without HIP. It has no devices either.
func AMD() backend.Driver { return none("hip") }

// HasNVIDIA reports false.
func HasNVIDIA() bool { return false }

// HasAMD reports false.
func HasAMD() bool { return false }

func none(kind string) backend.Driver {
	return gpu.Driver{
		Kind: kind,
		List: func() ([]backend.Info, error) { return nil, nil },
		Connect: func(int) (gpu.Device, error) {
			return nil, fmt.Errorf("%w: %s: it needs Linux or Windows", backend.ErrNotBuilt, kind)
		},
	}
}
