package attn

import (
	"testing"
	"unsafe"
)

// The offsets in the generator equal those of the fields of Visit and cuts.
func TestVisitLayout(t *testing.T) {
	var (
		v Visit
		c cuts
	)
	for _, x := range []struct {
		name      string
		got, want uintptr
	}{
		{"Page", unsafe.Offsetof(v.Page), 0},
		{"Ahead", unsafe.Offsetof(v.Ahead), 24},
		{"At", unsafe.Offsetof(v.At), 32},
		{"Used", unsafe.Offsetof(v.Used), 48},
		{"size", unsafe.Sizeof(v), 80},
		{"table", unsafe.Offsetof(c.table), 0},
		{"shift", unsafe.Offsetof(c.shift), 256},
		{"order", unsafe.Offsetof(c.order), 320},
		{"second order", unsafe.Offsetof(c.order) + unsafe.Sizeof(c.order[0]), 384},
	} {
		if x.got != x.want {
			t.Errorf("%s at %d, kernels expect %d", x.name, x.got, x.want)
		}
	}
}
