package arch

import (
	"math"

	"godwit/engine/model"
)

func init() { model.Register("minicpm", model.Arch{Open: openMiniCPM}) }

// openMiniCPM opens MiniCPM 1 and 2: Llama with constant factors on the embedding,
// the residual stream and the logits. Older files do not contain them. Source:
// arXiv 2404.06395.
func openMiniCPM(f *model.File) (model.Model, error) {
	m := plain{}.bind(f)
	c := &m.cfg
	m.scale = f.Factor("embedding_scale", 12)
	m.residuals = f.Factor("residual_scale", float32(1.4/math.Sqrt(float64(c.Layers))))
	m.logits = 1 / f.Factor("logit_scale", 256/float32(c.Embd))
	return m, nil
}
