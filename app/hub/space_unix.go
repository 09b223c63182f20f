//go:build linux || darwin || freebsd || dragonfly

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// freeSpace is the number of bytes that this user may still write below dir.
func freeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil //nolint:unconvert // the fields differ between systems
}

// diskFull reports whether a write failed for want of space.
func diskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
