//go:build !linux

package cpu

import "runtime"

func adviseHuge([]byte) {}

// Cores returns the number of processors; only Linux and macOS offer a cheap
// way to tell cores from threads.
func Cores() int { return runtime.NumCPU() }

// systemMemory returns zeros: memory is unknown here.
func systemMemory() (total, free int64) { return 0, 0 }

// untouched is unknown here, as free memory is.
func (m memory) untouched() int64 { return 0 }
