package api

import (
	"errors"
	"io/fs"
	"runtime"
	"syscall"
)

// Windows' own numbers, which Go's names do not match.
const (
	wsaAccess = syscall.Errno(10013)
	wsaInUse  = syscall.Errno(10048)
)

// PortTaken reports whether a port could not be opened because something listens on it.
func PortTaken(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || runtime.GOOS == "windows" && errors.Is(err, wsaInUse)
}

// PortForbidden reports whether a port could not be opened for lack of rights.
func PortForbidden(err error) bool {
	return errors.Is(err, fs.ErrPermission) || runtime.GOOS == "windows" && errors.Is(err, wsaAccess)
}
