package api

import (
	"errors"
	"io/fs"
	"runtime"
	"syscall"
)

// Windows error numbers, which differ from Go's constants.
const (
	wsaAccess = syscall.Errno(10013)
	wsaInUse  = syscall.Errno(10048)
)

// PortTaken reports whether a port could not be opened because it is in use.
func PortTaken(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || runtime.GOOS == "windows" && errors.Is(err, wsaInUse)
}

// PortForbidden reports whether a port could not be opened because of missing
// rights.
func PortForbidden(err error) bool {
	return errors.Is(err, fs.ErrPermission) || runtime.GOOS == "windows" && errors.Is(err, wsaAccess)
}
