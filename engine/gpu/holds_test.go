package gpu

import (
	"context"
	"errors"
	"testing"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// TestHolds checks that Holds and Compile agree, for every cache type at usual
// and unusual head sizes, with and without an exact window.
func TestHolds(t *testing.T) {
	d := Driver{Kind: "idle", Connect: func(int) (Device, error) { return &idle{}, nil }}
	b, err := d.Open(0, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, typ := range kv.Types() {
		for _, dim := range []int{64, 80, 576, 640, 1000} {
			for _, newest := range []int{0, 64} { // and as many pinned rows
				l, err := layout.Resolve(layout.Want{K: typ, V: typ}, []layout.LayerInfo{{
					Cached: true, Heads: 2, KVHeads: 1, HeadDimK: dim, HeadDimV: dim, Share: -1,
				}}, layout.Settings{Cells: 64, Seqs: 1, UBatch: 1, ExactWindow: &newest, ExactSinks: &newest})
				if err != nil {
					t.Fatal(err)
				}
				g := graph.NewBuilder()
				x := g.Embed(&graph.Weight{Type: dtype.F32, Shape: []int{4 * dim, 1}, Data: make([]byte, 16*dim)}, 1, graph.ByToken)
				plan, err := g.Finish(g.Attend(g.Slice(x, 0, 0, 2*dim), g.Slice(x, 0, 2*dim, dim), g.Slice(x, 0, 3*dim, dim),
					graph.Attention{Heads: 2, KVHeads: 1, DimK: dim, DimV: dim, Scale: 1}))
				if err != nil {
					t.Fatal(err)
				}
				p, compiled := b.Compile(context.Background(), plan, &l, backend.Sizes{Rows: 1, Outputs: 1, Pages: []int{1}})
				if p != nil {
					if err := p.Close(); err != nil {
						t.Error(err)
					}
				}
				held := d.Holds(&l)
				if (held == nil) != (compiled == nil) || held != nil && (!errors.Is(held, backend.ErrUnsupported) || !errors.Is(compiled, backend.ErrUnsupported)) {
					t.Errorf("%s at %d: Holds says %v, Compile %v", typ.Name, dim, held, compiled)
				}
				if held != nil {
					refused++
				}
			}
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
