package shaders

import (
	"testing"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// Pairs in presets, and every mix of types with a default exact tier, have kernels
// of their own.
func TestFrequentPairs(t *testing.T) {
	var byPage []*kv.Type
	for _, typ := range kv.Types() {
		if typ.Window != (kv.Window{}) {
			byPage = append(byPage, typ)
		}
	}
	if len(byPage) < 2 {
		t.Fatal("no types to mix")
	}
	for _, dim := range []int{64, 96, 128, 256} {
		list := wanted(dim)[:len(layout.Presets())]
		for _, k := range byPage {
			for _, v := range byPage {
				list = append(list, layout.Want{K: k, V: v})
			}
		}
		for _, w := range list {
			k, v := resolved(w.K, dim, kv.K, w.K.Window), resolved(w.V, dim, kv.V, w.V.Window)
			if k == nil || v == nil {
				t.Fatalf("%s and %s at %d: no kernel", w.K.Name, w.V.Name, dim)
			}
			if attendConstants(k, v, 1, laneClass(k.Lanes))["READERS"] != 1 {
				t.Errorf("%s and %s at %d are read by the kernel for any pair", w.K.Name, w.V.Name, dim)
			}
		}
	}
}

// Kernels for keys that conversations calibrate are compiled in advance with every
// type of values.
func TestSelfCalibratedInstances(t *testing.T) {
	have := map[string]bool{}
	for _, in := range Instances() {
		have[in.Name()] = true
	}
	asked := 0
	for _, k := range kv.Types() {
		for _, v := range kv.Types() {
			for _, dim := range []int{64, 80, 128, 576} {
				window := kv.Window{Newest: 64}
				kc, vc := resolved(k, dim, kv.K, window), resolved(v, dim, kv.V, window)
				if kc == nil || vc == nil || kc.selfCalibrated() == nil {
					continue
				}
				self := kc.selfCalibrated()
				for _, rows := range []int{1, 64} {
					a, err := NewAttention(self, vc, 4, 2, rows)
					if err != nil {
						t.Fatal(err)
					}
					if name := (Instance{a.Kernel, a.Constants}).Name(); !have[name] {
						t.Errorf("%s and %s at %d: no %s", k.Name, v.Name, dim, name)
					}
				}
				for _, l := range self.Repack(1, Target{}) {
					if name := (Instance{l.Kernel, l.Constants}).Name(); !have[name] {
						t.Errorf("%s at %d: no %s", k.Name, dim, name)
					}
				}
				asked++
			}
		}
	}
	if asked == 0 {
		t.Error("no type is levelled")
	}
}
