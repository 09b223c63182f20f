package pages

import (
	"errors"
	"testing"

	"godwit/engine/kv/layout"
)

// model is n layers of one shape.
func model(n, heads, kvHeads, dim int) []layout.LayerInfo {
	layers := make([]layout.LayerInfo, n)
	for i := range layers {
		layers[i] = layout.LayerInfo{Layer: i, Cached: true, Heads: heads, KVHeads: kvHeads, HeadDimK: dim, HeadDimV: dim, Share: -1}
	}
	return layers
}

func resolve(t testing.TB, w layout.Want, layers []layout.LayerInfo, s layout.Settings) layout.Layout {
	t.Helper()
	l, err := layout.Resolve(w, layers, s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// budgeted resolves a layout with a memory for each conversation that is the given
// multiple of the smallest one.
func budgeted(t testing.TB, w layout.Want, layers []layout.LayerInfo, s layout.Settings, times float64) layout.Layout {
	t.Helper()
	s.Memory = 1
	_, err := layout.Resolve(w, layers, s)
	var small *layout.BudgetError
	if !errors.As(err, &small) {
		t.Fatalf("one byte: %v", err)
	}
	s.Memory = int64(times * float64(small.Least))
	return resolve(t, w, layers, s)
}
