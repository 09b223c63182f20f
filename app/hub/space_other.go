//go:build !(linux || darwin || freebsd || dragonfly || windows)

package hub

import (
	"errors"
	"math"
	"syscall"
)

// freeSpace returns the maximum, because the free space is unknown on this
// system. A full disk is noticed when a write fails.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

// Space returns the maximum, because the free space is unknown on this system.
func Space(string) (free, size int64, err error) { return math.MaxInt64, 0, nil }

// diskFull reports whether a write failed because the disk is full.
func diskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
