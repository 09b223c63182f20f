package vision

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	register("qwen2vl_merger", bindQwen2VL)
	register("qwen2.5vl_merger", bindQwen25VL)
}

// bindQwen2VL binds Qwen2-VL's tower. Source: arXiv 2409.12191.
func bindQwen2VL(t *Tower, f *model.File) {
	t.bindQwen(f)
	t.post = t.bindNorm(f, "v.post_ln", t.width)
}

// bindQwen25VL binds Qwen2.5-VL's tower. It has RMS norms and gates, and most
// blocks attend within windows. Source: arXiv 2502.13923.
func bindQwen25VL(t *Tower, f *model.File) {
	t.norm = graph.RMS
	t.bindQwen(f)
	t.post = t.bindNorm(f, "v.post_ln", t.width)
	const pixels = 112 // side of a window in pixels, which files do not contain
	t.window = max(pixels/t.patch/t.merge, 1)
	every := f.IntOr("vision.n_wa_pattern", 0)
	for i := range t.blocks {
		t.blocks[i].full = every == 0 || (i+1)%every == 0
	}
}

// bindQwen binds what all Qwen towers share. They have a dynamic size, two
// temporal slices with the same pixels, rotation by row and column, and tokens
// of 2 × 2 patches.
func (t *Tower) bindQwen(f *model.File) {
	t.merged(f, "vision.spatial_merge_size", 2)
	t.bindPatches(f, true)
	t.bindBlocks(f, true)
	h := t.headDim()
	if h%4 != 0 {
		f.Fail("clip.vision.attention.head_count", "heads of %d columns; the size must be a multiple of 4", h)
		return
	}
	freqs, axes := make([]float32, h/2), make([]uint8, h/2)
	for i := range h / 4 {
		freq := power(10000, float64(2*i)/float64(h/2))
		freqs[i], axes[i] = freq, byRow
		freqs[h/4+i], axes[h/4+i] = freq, byCol
	}
	t.rope = t.rotate2D(freqs, axes, false)
	t.Text = max(f.Rows("mm.2.weight"), 1)
	t.Width, t.Grid = t.Text, true
	m := t.bindMLP(f, "mm.0", "mm.2", t.merge*t.merge*t.width, t.Text)
	t.project = func(g *graph.Builder, x graph.Value) graph.Value { return m.apply(g, x) }
	t.fit = t.dynamic(8, 4096)
	t.texts = around("<|vision_start|>", "<|vision_end|>")
}
