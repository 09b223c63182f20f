package gpu_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/backend/backendtest"
	"godwit/engine/backend/backendtest/gotest"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/shaders"
)

// matrixDims are the head sizes at which every cache type is written and read.
var matrixDims = []int{64, 80, 96, 128, 192, 256, 512, 576}

// TestAttentionMatrix runs every cache type that has a kernel as K and V, at every
// head size with 1 and 3 KV heads, and every pair of them at heads of 128 values.
func TestAttentionMatrix(t *testing.T) {
	b, err := emulator().Open(0, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	check := func(k, v *kv.Type, dim, heads int) {
		a := backendtest.Attention{
			K: k.Name, V: v.Name, Heads: 2 * heads, KVHeads: heads, DimK: dim, DimV: dim, Chunks: []int{66, 1, 1, 28}, Float: true,
		}
		t.Run(fmt.Sprintf("%s/%s/%d/%d", k.Name, v.Name, dim, heads), func(t *testing.T) { backendtest.CheckAttention(gotest.Of(t), b, a) })
	}
	types := slices.DeleteFunc(slices.Clone(kv.Types()), func(typ *kv.Type) bool {
		l, err := layout.Resolve(layout.Want{K: typ, V: typ}, []layout.LayerInfo{{
			Cached: true, Heads: 1, KVHeads: 1, HeadDimK: 128, HeadDimV: 128, Share: -1,
		}}, layout.Settings{Cells: kv.PageCells, Seqs: 1})
		if err != nil {
			t.Fatal(err)
		}
		_, err = shaders.NewCache(l.Layers[0].K.Active, 128, 0)
		if errors.Is(err, shaders.ErrForm) {
			t.Log(err)
			return true
		}
		return false
	})
	for _, typ := range types {
		for _, dim := range matrixDims {
			check(typ, typ, dim, 1)
			check(typ, typ, dim, 3)
		}
	}
	for _, k := range types {
		for _, v := range types {
			if k != v {
				check(k, v, 128, 1)
			}
		}
	}
}
