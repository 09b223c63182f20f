package vision

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { register("mlp", bindLLaVA) }

// bindLLaVA binds LLaVA 1.5's CLIP tower. The class token comes first, the
// output comes from an inner block, and the projection has two matrices.
// Sources: arXiv 2103.00020, 2310.03744.
func bindLLaVA(t *Tower, f *model.File) {
	grid := t.oneSize(f)
	t.bindPatches(f, false)
	t.class = decoded(f, f.Weight("v.class_embd", t.width))
	t.bindPositions(f, grid*grid+1)
	t.bindBlocks(f, true)
	// Files contain the blocks up to the layer whose output is used, unless they
	// name that layer.
	if k := f.Ints("vision.feature_layer"); k != nil {
		if len(k) != 1 || k[0] < 1 || k[0] > len(t.blocks) {
			f.Fail("clip.vision.feature_layer", "layer %v, but the tower has %d blocks", k, len(t.blocks))
		} else {
			t.blocks = t.blocks[:k[0]]
		}
	}
	t.pre = t.bindNorm(f, "v.pre_ln", t.width)
	if f.HasTensor("v.post_ln.weight") {
		t.bindNorm(f, "v.post_ln", t.width) // norm after the last block, which is not used
	}
	t.Text = max(f.Rows("mm.2.weight"), 1)
	t.Width = t.Text
	m := t.bindMLP(f, "mm.0", "mm.2", t.width, t.Text)
	t.project = func(g *graph.Builder, x graph.Value) graph.Value { return m.apply(g, x) }
	t.fit = t.square(bicubic, [3]byte{122, 116, 104})
}
