//go:build linux || windows

package cuda

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"sync"

	"godwit/engine/backend"
	"godwit/shaders"
)

//go:generate bash generate.sh

// Flags are what a kernel is compiled to PTX with. The version of the PTX,
// which decides what drivers take it, comes with the compiler.
func Flags(in shaders.Instance) []string {
	return []string{fmt.Sprintf("--gpu-architecture=compute_%d", Capability(in)), "--std=c++14", "--fmad=false"}
}

// Capability is the oldest compute capability that runs an instance, tens and ones:
// that of the oldest cards served, or of the first that have mma.
func Capability(in shaders.Instance) int {
	if in.MMA() {
		return mmaCapability
	}
	return minCapability
}

// pack is the PTX of every instance: a zip file whose entries are named by
// shaders.Instance.Name, with the hash of their source as comment.
//
//go:embed kernels.zip
var pack []byte

// images are the entries of the pack by name.
var images = sync.OnceValues(func() (map[string]*zip.File, error) {
	r, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil {
		return nil, fmt.Errorf("kernels.zip: %w", err)
	}
	m := make(map[string]*zip.File, len(r.File))
	for _, f := range r.File {
		m[f.Name] = f
	}
	return m, nil
})

// ptx is the PTX of a kernel, with a zero at the end.
func ptx(k *shaders.Kernel, c shaders.Constants) ([]byte, error) {
	all, err := images()
	if err != nil {
		return nil, err
	}
	name := shaders.Instance{Kernel: k, Constants: c}.Name()
	f := all[name]
	if f == nil {
		return nil, fmt.Errorf("%w: kernel %s is not among those that were compiled beforehand", backend.ErrUnsupported, name)
	}
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	return append(data, 0), errors.Join(err, r.Close())
}
