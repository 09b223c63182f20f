//go:build !linux && !windows

package cuda

import "fmt"

var libraries [2][]string

var compilers []string

// library finds nothing: this system has no such drivers.
func library([]string) (func(string) (uintptr, error), error) {
	return nil, fmt.Errorf("%w: there is none for this system", errNone)
}
