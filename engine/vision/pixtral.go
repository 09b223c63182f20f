package vision

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { register("pixtral", bindPixtral) }

// bindPixtral binds the tower of Pixtral and Mistral Small 3. It has a dynamic
// size. Rotation is alternately by row and by column, and a row break follows
// each row of tokens except the last. Source: arXiv 2410.07073.
func bindPixtral(t *Tower, f *model.File) {
	t.norm = graph.RMS
	t.merged(f, "vision.spatial_merge_size", 1)
	t.bindPatches(f, false)
	t.pre = t.bindNorm(f, "v.pre_ln", t.width)
	t.bindBlocks(f, false)
	h := t.headDim()
	if h%4 != 0 {
		f.Fail("clip.vision.attention.head_count", "heads of %d columns; the size must be a multiple of 4", h)
		return
	}
	freqs, axes := make([]float32, h/2), make([]uint8, h/2)
	for j := range h / 4 {
		x := float64(2*j) / float64(h/2)
		freqs[j], axes[j] = power(10000, x), byRow
		freqs[h/4+j], axes[h/4+j] = power(10000, x+2/float64(h)), byCol
	}
	t.rope = t.rotate2D(freqs, axes, true)
	t.Text = max(f.Rows("mm.2.weight"), 1)
	t.Width = t.Text
	t.newline = f.Values("v.token_embd.img_break", t.Text)
	m := t.bindMLP(f, "mm.1", "mm.2", t.width, t.Text)
	before := func(_ *graph.Builder, x graph.Value) graph.Value { return x }
	if t.merge > 1 {
		before = t.bindMerger(f)
	}
	t.project = func(g *graph.Builder, x graph.Value) graph.Value { return m.apply(g, before(g, x)) }
	t.fit = t.dynamic(8, 1024)
	t.texts = around("", "[IMG_END]")
}

// bindMerger binds the matrix that merges a square of patches. The file orders its
// columns by channel first, while rows here hold one patch after another, so the
// columns are reordered.
func (t *Tower) bindMerger(f *model.File) func(*graph.Builder, graph.Value) graph.Value {
	n := t.merge * t.merge
	t.post = norm{kind: graph.RMS, w: f.Weight("mm.input_norm.weight", t.width), eps: t.eps}
	w := f.Weight("mm.patch_merger.weight", n*t.width, t.width)
	x := decoded(f, w)
	if x == nil {
		return func(_ *graph.Builder, x graph.Value) graph.Value { return x }
	}
	y := make([]float32, len(x))
	for r := range w.Rows() {
		row := r * w.Cols()
		for c := range t.width {
			for k := range n {
				y[row+k*t.width+c] = x[row+c*n+k]
			}
		}
	}
	m := encoded(w.Name, y, w.Shape...)
	return func(g *graph.Builder, x graph.Value) graph.Value { return g.Linear(x, m, nil) }
}
