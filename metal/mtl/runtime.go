//go:build darwin && cgo

// Package mtl calls Objective-C. It provides the part of Metal that computing needs
// as plain functions. No other package calls Objective-C.
//
// darwinkit provides the types, the enumerations and the functions that are
// called once. Everything on the token path is a cached selector sent with
// purego, because darwinkit's calls allocate. Its release 0.5.0 also has
// faults. It has no function that creates a device. Its generated methods panic
// if an argument is a protocol's object. If a method returns a bool or a 32-bit
// number, darwinkit writes eight bytes and so overwrites adjacent memory. Its
// blocks are unsafe with current Go, so this package has no completion handlers
// and no deallocators. The compute encoder lacks endEncoding.
package mtl

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// ID is a reference to an object.
type ID uintptr

// functions holds the C functions of the libraries.
var functions struct {
	send, selector, class, push, pop, create, all uintptr
}

// load opens the frameworks, once.
var load = sync.OnceValue(func() error {
	for _, lib := range []struct {
		path  string
		names map[string]*uintptr
	}{
		{"/usr/lib/libobjc.A.dylib", map[string]*uintptr{
			"objc_msgSend": &functions.send, "sel_registerName": &functions.selector, "objc_getClass": &functions.class,
			"objc_autoreleasePoolPush": &functions.push, "objc_autoreleasePoolPop": &functions.pop,
		}},
		{"/System/Library/Frameworks/Metal.framework/Metal", map[string]*uintptr{
			"MTLCreateSystemDefaultDevice": &functions.create, "MTLCopyAllDevices": &functions.all,
		}},
	} {
		handle, err := purego.Dlopen(lib.path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return fmt.Errorf("%s: %w", lib.path, err)
		}
		for name, at := range lib.names {
			if *at, err = purego.Dlsym(handle, name); err != nil {
				return fmt.Errorf("%s: %w", lib.path, err)
			}
		}
	}
	for name, at := range selectorNames {
		text := append([]byte(name), 0)
		*at = call(functions.selector, uintptr(unsafe.Pointer(&text[0])))
	}
	return nil
})

// call calls a C function. A pointer among the arguments must be written as
// uintptr(unsafe.Pointer(p)) in the argument list itself. Only there, the
// compiler recognises it, moves its target to the heap and keeps the target
// alive until call returns.
//
//go:uintptrescapes
func call(fn uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(fn, args...)
	return r
}

// send sends a message of up to six words to an object. It takes pointers in
// the same way as call.
//
//go:uintptrescapes
func send(to ID, selector uintptr, args ...uintptr) uintptr {
	var words [8]uintptr
	words[0], words[1] = uintptr(to), selector
	n := 2 + copy(words[2:], args)
	r, _, _ := purego.SyscallN(functions.send, words[:n]...)
	return r
}

// truth returns a bool result of a method. Only its lowest byte is valid.
func truth(r uintptr) bool { return r&0xff != 0 }

// class finds a class. It returns 0 if the system does not have the class.
func class(name string) ID {
	text := append([]byte(name), 0)
	return ID(call(functions.class, uintptr(unsafe.Pointer(&text[0]))))
}

// text returns a string object that lives as long as the autorelease pool.
func text(s string) ID {
	b := append([]byte(s), 0)
	return ID(send(class("NSString"), sel.stringWithUTF8String, uintptr(unsafe.Pointer(&b[0]))))
}

// goString copies the text of a string object.
func goString(s ID) string {
	if s == 0 {
		return ""
	}
	p := send(s, sel.utf8String)
	if p == 0 {
		return ""
	}
	b := *(**byte)(unsafe.Pointer(&p))
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(b), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(b, n))
}

// failure describes an error object.
func failure(e ID) error {
	if e == 0 {
		return fmt.Errorf("no reason given")
	}
	return &Error{int(send(e, sel.code)), goString(ID(send(e, sel.localizedDescription)))}
}

// Error is Metal's description of a failed command or compilation.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Text, e.Code) }

// AutoreleasePool keeps the temporary objects of a thread until it is closed.
type AutoreleasePool uintptr

// OpenPool opens a pool and locks the goroutine to its thread, because the pool
// belongs to the thread.
func OpenPool() AutoreleasePool {
	runtime.LockOSThread()
	return AutoreleasePool(call(functions.push))
}

// Close frees the pool and the objects in it.
func (p AutoreleasePool) Close() {
	call(functions.pop, uintptr(p))
	runtime.UnlockOSThread()
}

// Pool opens a pool and returns a function that closes it.
func Pool() (closePool func()) { return OpenPool().Close }

// Release releases a reference.
func (o ID) Release() {
	if o != 0 {
		send(o, sel.release)
	}
}

// Retain adds a reference.
func (o ID) Retain() ID {
	send(o, sel.retain)
	return o
}

// responds reports whether an object supports a message that only newer systems
// have.
func responds(to ID, selector uintptr) bool {
	return truth(send(to, sel.respondsToSelector, selector))
}
