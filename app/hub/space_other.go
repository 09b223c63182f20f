//go:build !(linux || darwin || freebsd || dragonfly || windows)

package hub

import (
	"errors"
	"math"
	"syscall"
)

// freeSpace cannot tell here; a full disk shows when it is written to.
func freeSpace(string) (int64, error) { return math.MaxInt64, nil }

// Space cannot tell either.
func Space(string) (free, size int64, err error) { return math.MaxInt64, 0, nil }

// diskFull reports whether a write failed for want of space.
func diskFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
