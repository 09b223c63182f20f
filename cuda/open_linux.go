package cuda

import (
	"cmp"
	"fmt"

	"github.com/ebitengine/purego"
)

// libraries are the names of the driver's library, newest first.
var libraries = [2][]string{
	nvidia: {"libcuda.so.1", "libcuda.so"},
	amd:    {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
}

// compilers are the libraries that may contain hiprtc, in addition to the driver's
// own.
var compilers = []string{"libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libhiprtc.so"}

// library opens the first library of names that exists.
func library(names []string) (find func(string) (uintptr, error), err error) {
	for _, name := range names {
		lib, e := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if e == nil {
			return func(symbol string) (uintptr, error) { return purego.Dlsym(lib, symbol) }, nil
		}
		err = cmp.Or(err, e)
	}
	return nil, fmt.Errorf("%w: %w", errNone, err)
}
