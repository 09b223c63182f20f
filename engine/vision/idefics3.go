package vision

import (
	"fmt"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { register("idefics3", bindIdefics3) }

// bindIdefics3 binds the tower of Idefics 3 and SmolVLM. SigLIP runs on tiles
// and on an overview, and squares of patches are merged into tokens. Sources:
// arXiv 2408.12637, 2504.05299.
func bindIdefics3(t *Tower, f *model.File) {
	t.merged(f, "vision.projector.scale_factor", 1)
	t.bindSigLIP(f)
	n := t.merge * t.merge * t.width
	t.Text = max(f.Rows("mm.model.fc.weight"), 1)
	t.Width = t.Text
	m := bindMatrix(f, "mm.model.fc", n, t.Text)
	t.project = func(g *graph.Builder, x graph.Value) graph.Value { return m.apply(g, x) }
	longest := bounded(f, "vision.preproc_image_size", maxImage)
	t.fit = func(p *rgb, _ Limits) ([]part, error) { return t.fitIdefics(p, longest) }
	t.texts = idefics3Texts
}

// fitIdefics scales the longer side to a fixed length, then both sides to multiples
// of the tile size. The overview is the scaled picture.
func (t *Tower) fitIdefics(p *rgb, longest int) ([]part, error) {
	w, h := longest, longest
	even := func(x float64) int { n := int(x); return max(n+n%2, 1) }
	if p.w >= p.h {
		h = even(float64(longest) * (float64(p.h) / float64(p.w)))
	} else {
		w = even(float64(longest) * (float64(p.w) / float64(p.h)))
	}
	q, err := p.resize(w, h, lanczos)
	if err != nil {
		return nil, err
	}
	up := func(n int) int { return (n + t.size - 1) / t.size * t.size }
	if q, err = q.resize(up(w), up(h), lanczos); err != nil {
		return nil, err
	}
	parts, err := t.tiles(q)
	if err != nil {
		return nil, err
	}
	all, err := q.resize(t.size, t.size, lanczos)
	return append(parts, part{kind: "overview", rgb: all}), err
}

// idefics3Texts returns the texts around the tiles, which name the row and
// column of each tile and end each row of tiles.
func idefics3Texts(tiles []Tile) []string {
	const mark = "<fake_token_around_image>"
	out := make([]string, 0, len(tiles)+1)
	for i, t := range tiles {
		switch {
		case t.Kind == "overview":
			out = append(out, "\n\n"+mark+"<global-img>")
		case i > 0 && t.Col == 0:
			out = append(out, "\n"+mark+fmt.Sprintf("<row_%d_col_%d>", t.Row+1, t.Col+1))
		default:
			out = append(out, mark+fmt.Sprintf("<row_%d_col_%d>", t.Row+1, t.Col+1))
		}
	}
	return append(out, mark)
}
