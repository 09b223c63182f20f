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

// Flags are the options for compiling a kernel to PTX. The compiler determines the
// version of the PTX, and thereby which drivers accept it.
func Flags(in shaders.Instance) []string {
	return []string{fmt.Sprintf("--gpu-architecture=compute_%d", Capability(in)), "--std=c++14", "--fmad=false"}
}

// Capability returns the lowest compute capability that runs an instance, such
// as 75 for 7.5. A kernel with mma needs the first cards with mma. All others
// run on the oldest supported cards.
func Capability(in shaders.Instance) int {
	if in.MMA() {
		return mmaCapability
	}
	return minCapability
}

// pack is a zip file with the PTX of every instance. Entries are named by
// shaders.Instance.Name, and the comment of an entry is the hash of its source.
//
//go:embed kernels.zip
var pack []byte

// images maps names to entries of the pack.
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

// ptx returns the PTX of a kernel, followed by a zero byte.
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
