//go:build !linux

package cpu

import "runtime"

func adviseHuge([]byte) {}

// Cores is the number of processors; systems other than Linux and macOS give
// no cheap way to tell cores from threads.
func Cores() int { return runtime.NumCPU() }

// systemMemory is unknown here.
func systemMemory() (total, free int64) { return 0, 0 }
