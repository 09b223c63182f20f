package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("gpt-oss", model.Arch{Chat: "gpt-oss", Open: openGPTOSS, Required: []string{"output.*", "*exps.bias", "*gate_inp.bias", "*attn_output.bias"}})
}

// openGPTOSS opens gpt-oss: every other layer has a window, each head has an
// attention sink, and experts have biases and a clamped gate. Source: arXiv
// 2508.10925.
func openGPTOSS(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	m.ownOutput(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	windowed, window := windowPattern(f, c, 2, 0)
	h := readHeads(f, c, windowed)
	ropes := map[bool]*rotary{false: bindRope(f, h[0].dimK, false)}
	r := f.Rope(h[0].dimK)
	r.Base = f.FloatOr("rope.freq_base_swa", r.Base)
	ropes[true] = newRope(f, r, h[0].dimK, false)
	for i := range c.Layers {
		a := bindBiased(f, c, h[i], i, ropes[windowed[i]])
		a.SinkLogits = f.Weight(blk(i, "attn_sinks.weight"), a.Heads)
		if windowed[i] {
			a.Window = window
		}
		routing := readRouting(f, c, i, graph.SoftmaxSelected, false)
		n := expertSize(f, c, i, routing)
		e := bindExperts(f, c, i, n, routing, graph.SiLU)
		e.limit = 7
		e.brouter = f.Weight(blk(i, "ffn_gate_inp.bias"), routing.Experts)
		e.bgate = f.Weight(blk(i, "ffn_gate_exps.bias"), n, routing.Experts)
		e.bup = f.Weight(blk(i, "ffn_up_exps.bias"), n, routing.Experts)
		e.bdown = f.Weight(blk(i, "ffn_down_exps.bias"), c.Embd, routing.Experts)
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd),
			ffnNorm: rms(f, blk(i, "post_attention_norm"), c.Embd),
			mix:     a,
			ffn:     e,
		})
	}
	return m, nil
}
