//go:build !linux && !darwin

// Package emu runs the kernels on the CPU. It supports Linux and macOS.
package emu

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/gpu"
)

// Built reports whether this build has the emulator.
const Built = false

// Options configures Open. The zero value works.
type Options struct {
	Order    int
	Threads  int
	Compiler string
	Cache    string
	Memory   int64
	MMA      int
}

// Open returns backend.ErrNotBuilt.
func Open(Options) (gpu.Device, error) {
	return nil, fmt.Errorf("%w: emu: the GPU emulator runs on Linux and macOS", backend.ErrNotBuilt)
}
