//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly || windows)

package gguf

import (
	"errors"
	"os"
)

func mapFile(*os.File, int) (data []byte, unmap func() error, err error) {
	return nil, nil, errors.ErrUnsupported
}

func dropPages([]byte) {}

func lockPages([]byte) error { return errors.ErrUnsupported }
