//go:build linux || darwin || freebsd || dragonfly

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// freeSpace returns the number of bytes that this user can still write below
// dir.
func freeSpace(dir string) (int64, error) {
	free, _, err := Space(dir)
	return free, err
}

// Space returns the free space and the size of the whole file system.
func Space(dir string) (free, size int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, os.NewSyscallError("statfs", err)
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil //nolint:unconvert // the fields differ between systems
}

// diskFull reports whether a write failed because the disk is full.
func diskFull(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}
