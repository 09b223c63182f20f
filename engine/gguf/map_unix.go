//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package gguf

import (
	"os"

	"golang.org/x/sys/unix"
)

func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	return data, func() error { return os.NewSyscallError("munmap", unix.Munmap(data)) }, nil
}

// dropPages only advises the system. If that fails, nothing changes.
func dropPages(data []byte) { _ = unix.Madvise(data, unix.MADV_DONTNEED) }

func lockPages(data []byte) error { return os.NewSyscallError("mlock", unix.Mlock(data)) }
