//go:build !linux

package cpu

import "runtime"

func adviseHuge([]byte) {}

// Cores returns the number of processors. Only Linux and macOS have a cheap way
// to distinguish cores from threads.
func Cores() int { return runtime.NumCPU() }

// systemMemory returns zeros: memory is unknown here.
func systemMemory() (total, free int64) { return 0, 0 }

// untouched returns 0, because the free memory is unknown here too.
func (m memory) untouched() int64 { return 0 }
