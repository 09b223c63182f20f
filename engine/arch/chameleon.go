package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("chameleon", model.Arch{Open: openChameleon}) }

// Tokens of Chameleon that stand for parts of pictures and that it never writes.
const (
	firstPicture = 4
	pictures     = 8192
)

// openChameleon opens the text part of Chameleon. It has layer norms with biases on
// each query and key head. In the larger model, norms follow each half instead of
// preceding it. The logits of picture tokens are suppressed. Source: arXiv
// 2405.09818.
func openChameleon(f *model.File) (model.Model, error) {
	swin := f.BoolOr("swin_norm", false)
	m := plain{
		ownOutput: true,
		attention: func(f *model.File, c *model.Config, a *attention) {
			head := func(name string, n int) norm {
				return norm{
					kind: graph.Layer, eps: 1e-5, group: a.DimK,
					w: f.Weight(blk(a.Layer, name+".weight"), a.DimK, n), b: f.Optional(blk(a.Layer, name+".bias"), a.DimK, n),
				}
			}
			a.qNorm, a.kNorm = head("attn_q_norm", a.Heads), head("attn_k_norm", a.KVHeads)
		},
		norms: func(f *model.File, c *model.Config, layer int, b *block) bool {
			first, second := rms(f, blk(layer, "attn_norm"), c.Embd), rms(f, blk(layer, "ffn_norm"), c.Embd)
			if swin {
				b.mixPost, b.ffnPost = first, second
			} else {
				b.mixNorm, b.ffnNorm = first, second
			}
			return true
		},
	}.bind(f)
	if n := m.cfg.Vocab - firstPicture; n > 0 && m.bias == nil {
		m.bias = suppressed(m.cfg.Vocab, firstPicture, min(pictures, n))
	}
	return m, nil
}
