package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// freeSpace returns the number of bytes that this user can still write below
// dir.
func freeSpace(dir string) (int64, error) {
	free, _, err := Space(dir)
	return free, err
}

// Space returns the free space and the size of the whole file system.
func Space(dir string) (free, size int64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var left, whole uint64
	if err := windows.GetDiskFreeSpaceEx(path, &left, &whole, nil); err != nil {
		return 0, 0, os.NewSyscallError("GetDiskFreeSpaceEx", err)
	}
	return int64(min(left, 1<<62)), int64(min(whole, 1<<62)), nil
}

// diskFull reports whether a write failed because the disk is full.
func diskFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
