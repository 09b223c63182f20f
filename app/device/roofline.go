package device

import (
	"context"
	"errors"

	"godwit/engine/backend"
	"godwit/engine/cpu"
)

// Roofline compares the processor's limits with the speed of the matrix kernels.
type Roofline = cpu.Roofline

// MeasureCPU measures the processor with the given number of threads, 0 for all
// physical cores.
func MeasureCPU(ctx context.Context, threads int) (r Roofline, err error) {
	b, err := cpu.Driver{}.Open(0, backend.Options{Threads: threads})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return b.(*cpu.Backend).Measure(ctx)
}
