//go:build !unix

package cpu

import "errors"

// memory is a plain slice on systems without anonymous mappings.
type memory []byte

func allocate(n int) (memory, error) { return make(memory, n), nil }

func (m memory) free() error { return nil }

func (m memory) lock() error { return errors.ErrUnsupported }
