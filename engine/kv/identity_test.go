package kv

import (
	"slices"
	"testing"
)

// The identity of a form depends on everything that determines what its bytes mean.
func TestIdentity(t *testing.T) {
	seen := map[string]string{}
	add := func(name string, f *Type) {
		id := f.Identity()
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s are one identity", name, other)
		}
		seen[id] = name
	}
	for _, f := range Forms() {
		if f.Name == "amxv3" || len(f.Variants) > 0 && f.Variants[0].Dim == 0 {
			continue // amxv3 equals tbq3_1 byte for byte, and a -rot name stands for its variants
		}
		add(f.Name, f)
		for _, v := range f.Variants {
			add(f.Name+" variant", v.Form)
		}
	}
	for _, v := range Q4_0Rot.Variants {
		add(v.Form.Name, v.Form)
	}
	changed := *Turbo3
	changed.Rotation.Post = slices.Clone(changed.Rotation.Post)
	changed.Rotation.Post[7] *= -1
	add("turbo3 with another sign", &changed)
}
