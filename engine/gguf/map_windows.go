package gguf

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateFileMapping", err)
	}
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	// The view keeps the mapping alive.
	if err = errors.Join(os.NewSyscallError("MapViewOfFile", err), windows.CloseHandle(h)); err != nil {
		return nil, nil, err
	}
	// The system allocated this address and not Go's heap, so it is read as a
	// pointer.
	data = unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size)
	return data, func() error { return os.NewSyscallError("UnmapViewOfFile", windows.UnmapViewOfFile(addr)) }, nil
}

// dropPages removes the pages from the working set. Unlocking pages that are
// not locked has this effect, although it reports an error.
func dropPages(data []byte) {
	if len(data) > 0 {
		_ = windows.VirtualUnlock(uintptr(unsafe.Pointer(&data[0])), uintptr(len(data)))
	}
}

func lockPages(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return os.NewSyscallError("VirtualLock", windows.VirtualLock(uintptr(unsafe.Pointer(&data[0])), uintptr(len(data))))
}
