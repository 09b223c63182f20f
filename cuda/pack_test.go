//go:build linux || windows

package cuda

import (
	"bytes"
	"fmt"
	"testing"

	"godwit/shaders"
)

// maxPack is the maximum size that the PTX may add to the binary.
const maxPack = 8 << 20

func TestPackIsFresh(t *testing.T) {
	if len(pack) > maxPack {
		t.Errorf("the pack has %d bytes, at most %d", len(pack), maxPack)
	}
	all, err := images()
	if err != nil {
		t.Fatal(err)
	}
	stale, list := 0, shaders.Instances()
	for _, in := range list {
		hash, err := in.Hash(Flags(in)...)
		if err != nil {
			t.Fatal(err)
		}
		if f := all[in.Name()]; f == nil || f.Comment != hash {
			stale++
			t.Logf("%s is missing or stale", in.Name())
		}
	}
	if stale > 0 || len(all) != len(list) {
		t.Errorf("%d of %d kernels are stale, the pack has %d: run go generate ./cuda", stale, len(list), len(all))
	}
}

// Every image is PTX of a version that the oldest driver accepts, and its
// kernel has one parameter per argument.
func TestPack(t *testing.T) {
	for _, in := range shaders.Instances() {
		image, err := ptx(in.Kernel, in.Constants)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(image, fmt.Appendf(nil, ".version 7.8\n.target sm_%d\n", Capability(in))) {
			t.Errorf("%s begins %.40q", in.Name(), image)
		}
		if bytes.Contains(image, []byte("mma.sync")) != in.MMA() {
			t.Errorf("%s multiplies matrices by one instruction, or not, against its name", in.Name())
		}
		if image[len(image)-1] != 0 {
			t.Errorf("%s does not end in a zero", in.Name())
		}
		entry := []byte(fmt.Sprintf(".visible .entry %s(", in.Kernel.Name))
		if bytes.Count(image, []byte(".entry")) != 1 || !bytes.Contains(image, entry) {
			t.Errorf("%s has no entry of its name, or others beside", in.Name())
		}
		params := len(in.Kernel.Args) + 1
		for i, want := range []bool{true, false} {
			name := []byte(fmt.Sprintf(" %s_param_%d", in.Kernel.Name, params-1+i))
			if bytes.Contains(image, name) != want {
				t.Errorf("%s has not %d parameters", in.Name(), params)
			}
		}
	}
}
