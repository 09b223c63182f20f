package vision

import (
	"fmt"

	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { register("internvl", bindInternVL) }

// bindInternVL binds InternVL's tower. A picture has tiles in the grid that
// fits it best, and an overview. Blocks have layer scales. Sources: arXiv
// 2312.14238, 2404.16821.
func bindInternVL(t *Tower, f *model.File) {
	t.merged(f, "vision.projector.scale_factor", 2)
	grid := t.oneSize(f)
	t.bindPatches(f, false)
	t.class = decoded(f, f.Weight("v.class_embd", t.width))
	t.bindPositions(f, grid*grid+1)
	t.bindBlocks(f, false)
	for i := range t.blocks {
		t.blocks[i].ls1 = f.Optional(fmt.Sprintf("v.blk.%d.ls1.weight", i), t.width)
		t.blocks[i].ls2 = f.Optional(fmt.Sprintf("v.blk.%d.ls2.weight", i), t.width)
	}
	n := t.merge * t.merge * t.width
	t.Text = max(f.Rows("mm.model.mlp.3.weight"), 1)
	t.Width = t.Text
	m := t.bindMLP(f, "mm.model.mlp.1", "mm.model.mlp.3", n, t.Text)
	m.norm = t.bindNorm(f, "mm.model.mlp.0", n)
	m.norm.eps = 1e-5 // epsilon of the projector's norm, which files do not contain
	t.project = func(g *graph.Builder, x graph.Value) graph.Value { return m.apply(g, x) }
	least, most := f.IntOr("vision.preproc_min_tiles", 1), f.IntOr("vision.preproc_max_tiles", 12)
	if least < 1 || most < least || most > maxTiles {
		f.Fail("clip.vision.preproc_max_tiles", "%d to %d tiles; at most %d are supported", least, most, maxTiles)
	}
	t.fit = func(p *rgb, _ Limits) ([]part, error) { return t.fitInternVL(p, least, most) }
	t.texts = around("<img>", "</img>")
}

func (t *Tower) fitInternVL(p *rgb, least, most int) ([]part, error) {
	n := t.size
	var parts []part
	if p.w > n || p.h > n {
		cols, rows := bestGrid(p.w, p.h, n, least, most)
		q, err := p.letterbox(cols*n, rows*n, bicubic, [3]byte{})
		if err != nil {
			return nil, err
		}
		if parts, err = t.tiles(q); err != nil {
			return nil, err
		}
	}
	all, err := p.resize(n, n, bicubic)
	return append(parts, part{kind: "overview", rgb: all}), err
}

// bestGrid returns the grid of n×n tiles that keeps the most pixels of the picture.
// Among equal grids it picks the one with the smallest unused area.
func bestGrid(w, h, n, least, most int) (cols, rows int) {
	cols, rows = 1, 1
	best, bestWaste := -1, 0
	for a := 1; a <= most; a++ {
		for b := 1; a*b <= most; b++ {
			if a*b < least {
				continue
			}
			s := min(float32(a*n)/float32(w), float32(b*n)/float32(h))
			useful := min(int(float32(w)*s)*int(float32(h)*s), w*h)
			waste := a*n*b*n - useful
			if useful > best || useful == best && waste < bestWaste {
				cols, rows, best, bestWaste = a, b, useful, waste
			}
		}
	}
	return cols, rows
}
