package attn

import (
	"testing"
	"unsafe"
)

// The generator knows where the fields of a visit lie.
func TestVisitLayout(t *testing.T) {
	var v Visit
	for _, x := range []struct {
		name      string
		got, want uintptr
	}{
		{"Page", unsafe.Offsetof(v.Page), 0},
		{"Next", unsafe.Offsetof(v.Next), 24},
		{"At", unsafe.Offsetof(v.At), 48},
		{"Used", unsafe.Offsetof(v.Used), 64},
		{"size", unsafe.Sizeof(v), 72},
	} {
		if x.got != x.want {
			t.Errorf("%s at %d, kernels expect %d", x.name, x.got, x.want)
		}
	}
}
