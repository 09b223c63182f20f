package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("kimi-linear", model.Arch{Open: openKimiLinear})
	model.Register("bailingmoe3", model.Arch{Open: openBailingMoE3, Ahead: true})
}

// bindKDAHybrid binds blocks that are delta attention if a layer has no KV heads,
// else latent attention. feed binds the other half.
func (m *decoder) bindKDAHybrid(f *model.File, bound float32, change func(a *latent), feed func(layer int) half) {
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	s, h := readLatent(f, c), readHeads(f, c, nil)
	for i := range c.Layers {
		b := block{mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd), ffn: feed(i)}
		if h[i].kv == 0 {
			b.mix = bindKDA(f, c, i, h[i].q, bound)
		} else {
			a := bindLatent(f, c, s, i)
			change(a)
			b.mix = a
		}
		m.blocks = append(m.blocks, b)
	}
}

// bindGate binds a gate of the result with a value per column or per head, if the
// file has one.
func (a *latent) bindGate(f *model.File, c *model.Config) {
	name := blk(a.layer, "attn_gate.weight")
	if n := f.Rows(name); n > 0 {
		if n != a.heads {
			n = a.heads * a.value
		}
		a.gate = f.Matrix(name, c.Embd, n)
	}
}

// openKimiLinear opens Kimi Linear: three layers of delta attention for each layer
// of latent attention without RoPE. Source: arXiv 2510.26692.
func openKimiLinear(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.bindKDAHybrid(f, 0, func(a *latent) {
		a.still = true
		a.bindGate(f, &m.cfg)
	}, func(layer int) half {
		h := bindLead(f, &m.cfg, layer, graph.SigmoidGate)
		if e, ok := h.(*experts); ok {
			e.routing.Normalise = true
		}
		return h
	})
	return m, nil
}

// openBailingMoE3 opens Ling 3: five layers of delta attention, whose decay has a
// lower bound, for each layer of latent attention with a gate on each head's
// result.
func openBailingMoE3(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	bound := f.FloatOr("kda.gate_lower_bound", 0)
	if !f.BoolOr("kda.safe_gate", bound != 0) {
		bound = 0
	}
	m.bindKDAHybrid(f, bound, func(a *latent) { a.bindGate(f, &m.cfg) }, func(layer int) half {
		h := bindLead(f, &m.cfg, layer, graph.SigmoidGate)
		if e, ok := h.(*experts); ok {
			e.bound = layerBound(f, &m.cfg, "swiglu_clamp_exp", layer, 0)
			if e.shared != nil {
				e.shared.bound = layerBound(f, &m.cfg, "swiglu_clamp_shexp", layer, 0)
			}
		}
		return h
	})
	return m, nil
}
