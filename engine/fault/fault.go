// Package fault turns reads of mapped memory that is gone into errors. A file that
// another program shortens, or whose disk fails, loses pages that are mapped;
// reading them raises a signal that would end the process.
//
//	forget := fault.Name(data, "model.gguf") // when the file is mapped
//	err := fault.Guard(func() error { … read data … })
//
// The error names the file. Guard covers the goroutine that calls it, not those
// that it starts. It does nothing for code outside Go, so data is copied before a
// driver gets it.
package fault

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"
)

// ErrGone is wrapped by errors about mapped memory that cannot be read.
var ErrGone = errors.New("the file was cut short, or its disk is gone")

// Error names the file that lost pages.
type Error struct {
	Path    string // empty if no named mapping holds the address
	Address uintptr
}

func (e *Error) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("memory at %#x cannot be read: %v", e.Address, ErrGone)
	}
	return fmt.Sprintf("%s cannot be read any more: %v", e.Path, ErrGone)
}

// Unwrap lets errors.Is find ErrGone.
func (e *Error) Unwrap() error { return ErrGone }

// mapping is a named part of the process's address space.
type mapping struct {
	from, to uintptr
	path     string
}

var (
	mu       sync.Mutex
	mappings []*mapping
)

// Name records which file is mapped at data, until forget is called.
func Name(data []byte, path string) (forget func()) {
	from := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	m := &mapping{from, from + uintptr(len(data)), path}
	mu.Lock()
	defer mu.Unlock()
	mappings = append(mappings, m)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		mappings = slices.DeleteFunc(mappings, func(o *mapping) bool { return o == m })
	}
}

// From returns the error of a recovered panic, or false for a panic of another
// kind.
func From(recovered any) (error, bool) {
	r, ok := recovered.(interface{ Addr() uintptr }) // see debug.SetPanicOnFault
	if !ok {
		return nil, false
	}
	e := &Error{Address: r.Addr()}
	mu.Lock()
	defer mu.Unlock()
	for _, m := range mappings {
		if m.from <= e.Address && e.Address < m.to {
			e.Path = m.path
		}
	}
	return e, true
}

// Guard calls f and returns its error, or an [Error] if f read mapped memory
// that is gone. Other panics pass through.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		gone, ok := From(r)
		if !ok {
			panic(r)
		}
		err = gone
	}()
	return f()
}
