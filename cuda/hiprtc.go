//go:build linux || windows

package cuda

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"godwit/shaders"
)

// rtc holds the functions of AMD's run-time compiler.
type rtc struct {
	create, compile, logSize, log, size, code, destroy uintptr
}

// openRTC finds the compiler in its own library or in the driver's library.
var openRTC = sync.OnceValues(func() (*rtc, error) {
	var errs []error
	for _, names := range [][]string{compilers, libraries[amd]} {
		find, err := library(names)
		if err == nil {
			r := &rtc{}
			if err = r.bind(find); err == nil {
				return r, nil
			}
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("no hiprtc: %w", errors.Join(errs...))
})

func (r *rtc) bind(find func(string) (uintptr, error)) error {
	for name, at := range map[string]*uintptr{
		"hiprtcCreateProgram": &r.create, "hiprtcCompileProgram": &r.compile, "hiprtcGetProgramLogSize": &r.logSize,
		"hiprtcGetProgramLog": &r.log, "hiprtcGetCodeSize": &r.size, "hiprtcGetCode": &r.code, "hiprtcDestroyProgram": &r.destroy,
	} {
		fn, err := find(name)
		if err != nil || fn == 0 {
			return fmt.Errorf("it has no %s", name)
		}
		*at = fn
	}
	return nil
}

// call takes pointers in the same way as api.call.
//
//go:uintptrescapes
func (r *rtc) call(what string, fn uintptr, args ...uintptr) error {
	if code, _, _ := purego.SyscallN(fn, args...); int32(uint32(code)) != success {
		return fmt.Errorf("hiprtc: %s: error %d", what, int32(uint32(code)))
	}
	return nil
}

// rtcOptions are the options for every kernel. Without an option for the
// architecture, the compiler targets the current card.
var rtcOptions = []string{"-O3", "-std=c++14", "-ffp-contract=off"}

// codeObject compiles a kernel for the card, or returns the cached code.
func (d *device) codeObject(k *shaders.Kernel, c shaders.Constants) ([]byte, error) {
	text, err := k.Source(c)
	if err != nil {
		return nil, err
	}
	var version int32
	if err := d.call("version", d.version, uintptr(unsafe.Pointer(&version))); err != nil {
		return nil, err
	}
	path := codePath(fmt.Sprintf("%s %d %d %v\n%s", d.card.name, d.card.capability, version, rtcOptions, text), k.Name)
	return kept(path, func() ([]byte, error) {
		r, err := openRTC()
		if err != nil {
			return nil, err
		}
		leave, err := d.enter()
		if err != nil {
			return nil, err
		}
		defer leave()
		code, err := r.build(k.Name, text, rtcOptions)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Name, err)
		}
		return code, nil
	})
}

// codePath returns the path of a kernel's cached code, in the user's cache
// folder. The name is a hash of everything that the code depends on. Without a
// cache folder, codePath returns "".
func codePath(what, name string) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "godwit", "hip", fmt.Sprintf("%s-%x", name, sha256.Sum256([]byte(what))))
}

// kept returns the file at a path. If the file is missing, it calls build and
// saves the result. If saving is not possible, it builds each time.
func kept(path string, build func() ([]byte, error)) ([]byte, error) {
	if path == "" {
		return build()
	}
	if code, err := os.ReadFile(path); err == nil && len(code) > 0 {
		return code, nil
	}
	code, err := build()
	if err == nil {
		_ = keep(path, code) // if this fails, the next program builds the file again
	}
	return code, err
}

// keep writes a file atomically.
func keep(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// build compiles one source.
func (r *rtc) build(name, text string, flags []string) (code []byte, err error) {
	source, file := append([]byte(text), 0), append([]byte(name), 0)
	var program uintptr
	if err := r.call("create program", r.create, uintptr(unsafe.Pointer(&program)), uintptr(unsafe.Pointer(&source[0])), uintptr(unsafe.Pointer(&file[0])), 0, 0, 0); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.call("end program", r.destroy, uintptr(unsafe.Pointer(&program)))) }()
	options := make([]*byte, len(flags))
	for i, o := range flags {
		options[i] = &append([]byte(o), 0)[0]
	}
	if err := r.call("compile", r.compile, program, uintptr(len(options)), uintptr(unsafe.Pointer(&options[0]))); err != nil {
		return nil, errors.Join(err, r.said(program))
	}
	var n uintptr
	if err := r.call("code size", r.size, program, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	if n == 0 || n > 1<<28 {
		return nil, fmt.Errorf("hiprtc: %d bytes of code", n)
	}
	code = make([]byte, n)
	return code, r.call("code", r.code, program, uintptr(unsafe.Pointer(&code[0])))
}

// said returns the compiler's log.
func (r *rtc) said(program uintptr) error {
	var n uintptr
	if err := r.call("log size", r.logSize, program, uintptr(unsafe.Pointer(&n))); err != nil || n == 0 || n > 1<<20 {
		return err
	}
	log := make([]byte, n)
	if err := r.call("log", r.log, program, uintptr(unsafe.Pointer(&log[0]))); err != nil {
		return err
	}
	return errors.New(string(bytes.TrimRight(log, "\x00\n")))
}
