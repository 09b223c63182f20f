//go:build !linux

package cpu

import "runtime"

// yield lets another thread run.
func yield() { runtime.Gosched() }
