package cuda

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/windows"
)

// libraries are the names of the driver's library, newest first.
var libraries = [2][]string{
	nvidia: {"nvcuda.dll"},
	amd:    {"amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll"},
}

// compilers are the libraries that may contain hiprtc, in addition to the driver's
// own.
var compilers = []string{"hiprtc0701.dll", "hiprtc0700.dll", "hiprtc0604.dll", "hiprtc0602.dll", "hiprtc0507.dll"}

// library opens the first library of names that exists. It searches only the
// system's folder.
func library(names []string) (find func(string) (uintptr, error), err error) {
	for _, name := range names {
		lib, e := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
		if e == nil {
			return func(symbol string) (uintptr, error) { return windows.GetProcAddress(lib, symbol) }, nil
		}
		err = cmp.Or(err, e)
	}
	return nil, fmt.Errorf("%w: %w", errNone, err)
}
