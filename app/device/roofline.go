package device

import (
	"context"
	"errors"

	"godwit/engine/backend"
	"godwit/engine/cpu"
)

// Roofline is what the processor can do and what the matrix kernels make of it.
type Roofline = cpu.Roofline

// MeasureCPU measures the processor with so many threads, 0 for all physical cores.
func MeasureCPU(ctx context.Context, threads int) (r Roofline, err error) {
	b, err := cpu.Driver{}.Open(0, backend.Options{Threads: threads})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return b.(*cpu.Backend).Measure(ctx)
}
