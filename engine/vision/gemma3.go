package vision

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { register("gemma3", bindGemma3) }

// bindGemma3 binds Gemma 3's SigLIP tower. All pictures are resized to one square
// size, and each token is the mean of a square of patches. Sources: arXiv
// 2303.15343, 2503.19786.
func bindGemma3(t *Tower, f *model.File) {
	t.merged(f, "vision.projector.scale_factor", 4)
	t.bindSigLIP(f)
	t.vit.mean = true
	w := f.Weight("mm.input_projection.weight", 0, t.width) // the file stores the input dimension first
	t.Text = max(w.Cols(), 1)
	t.Width, t.Whole = t.Text, true
	soft := norm{kind: graph.RMS, w: f.Weight("mm.soft_emb_norm.weight", t.width), eps: t.eps}
	matrix := transposed(f, w)
	t.project = func(g *graph.Builder, x graph.Value) graph.Value {
		return g.Linear(soft.apply(g, x, 0), matrix, nil)
	}
	t.fit = t.square(bilinear, [3]byte{})
	t.texts = around("<start_of_image>", "<end_of_image>")
}

// bindSigLIP binds a SigLIP tower of a fixed size, up to the norm after its blocks.
func (t *Tower) bindSigLIP(f *model.File) {
	grid := t.oneSize(f)
	t.bindPatches(f, false)
	t.bindPositions(f, grid*grid)
	t.bindBlocks(f, true)
	t.post = t.bindNorm(f, "v.post_ln", t.width)
}

// transposed transposes a matrix.
func transposed(f *model.File, w *graph.Weight) *graph.Weight {
	x := decoded(f, w)
	if x == nil {
		return w
	}
	cols, rows := w.Cols(), w.Rows()
	y := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			y[c*rows+r] = x[r*cols+c]
		}
	}
	return encoded(w.Name, y, rows, cols)
}
