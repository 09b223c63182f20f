//go:build linux || windows

package cuda

import (
	"bytes"
	"fmt"
	"unsafe"

	"godwit/engine/gpu"
	"godwit/shaders"
)

// Options of the driver's compiler: the buffer for error messages, and its size in
// bytes.
const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
)

// jitValues holds the values of these options, each in a pointer-sized field.
type jitValues struct {
	log  *byte
	size uintptr
}

// Pipeline loads the kernel's PTX into the driver, or on AMD cards the code that
// hiprtc makes from its source.
func (d *device) Pipeline(k *shaders.Kernel, c shaders.Constants) (gpu.Pipeline, error) {
	if len(k.Args) > maxArgs {
		return nil, fmt.Errorf("%s: %d arguments, at most %d", d.kind, len(k.Args), maxArgs)
	}
	var image []byte
	var err error
	if d.flavor == amd {
		image, err = d.codeObject(k, c)
	} else {
		image, err = ptx(k, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.kind, err)
	}
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	module, err := d.load(image)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", d.kind, k.Name, err)
	}
	d.modules = append(d.modules, module)
	p := &pipeline{kernel: k, what: "launch " + k.Name}
	name := append([]byte(k.Name), 0)
	if err := d.call("find kernel", d.function, uintptr(unsafe.Pointer(&p.function)), module, uintptr(unsafe.Pointer(&name[0]))); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", d.kind, k.Name, err)
	}
	return p, nil
}

// load loads an image into the driver. Its error contains the compiler's output.
func (d *device) load(image []byte) (module uintptr, err error) {
	if d.flavor == amd {
		err = d.call("load", d.loadModule, uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&image[0])), 0, 0, 0)
		return module, err
	}
	log := make([]byte, 8192)
	options := [2]int32{jitErrorLog, jitErrorLogSize}
	values := jitValues{&log[0], uintptr(len(log))}
	err = d.call("compile", d.loadModule, uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&image[0])), 2, uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&values)))
	if text, _, _ := bytes.Cut(log, []byte{0}); err != nil && len(text) > 0 {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(text))
	}
	return module, err
}
