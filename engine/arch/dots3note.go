package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() { model.Register("dots3note", model.Arch{Open: openDots3Note, Ahead: true}) }

// openDots3Note opens dots3.note: latent attention with a gate on each head's
// result and a norm on the RoPE key. Windowed layers have their own sizes, and the
// other layers attend to chosen positions.
func openDots3Note(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	m.norm = rms(f, "output_norm", c.Embd)
	far := readLatent(f, c)
	if !far.absorbed {
		f.Fail("attention.key_length_mla", "missing")
	}
	near := windowedLatent(f, far)
	windowed, ok := f.Bools("attention.sliding_window_pattern", c.Layers)
	if !ok {
		f.Fail("attention.sliding_window_pattern", "missing")
		windowed = make([]bool, c.Layers)
	}
	window := f.Int("attention.sliding_window")
	x := newIndexers(f, c, far, false, 1e-6)
	h := readHeads(f, c, nil)
	layers := c.Layers
	for i := range layers {
		s := far
		if windowed[i] {
			s = near
		}
		s.heads = h[i].q
		a := bindLatent(f, c, s, i)
		a.bindGate(f, c)
		a.turnedNorm = rms(f, blk(i, "attn_k_norm"), s.rotated)
		if windowed[i] {
			a.window = window
		} else {
			x.bind(f, c, i, a)
		}
		m.blocks = append(m.blocks, block{
			mixNorm: rms(f, blk(i, "attn_norm"), c.Embd), ffnNorm: rms(f, blk(i, "ffn_norm"), c.Embd),
			mix: a, ffn: bindLead(f, c, i, graph.SigmoidGate),
		})
	}
	x.layers(c)
	return m, nil
}

// windowedLatent reads the sizes of latent attention in windowed layers.
func windowedLatent(f *model.File, far latentSizes) latentSizes {
	s := far
	keys := f.Int("attention.key_length_mla_swa")
	s.rank, s.value = f.Int("attention.kv_lora_rank_swa"), f.Int("attention.value_length_mla_swa")
	if s.plain = keys - s.rotated; s.plain < 1 || s.rank+s.rotated > maxHeadDim || s.value > maxHeadDim || keys > maxHeadDim {
		f.Fail("attention.key_length_mla_swa", "heads have %d columns with %d rotated, which a cache of rank %d does not allow", keys, s.rotated, s.rank)
		s.plain, s.rank, s.value = 1, 1, 1
	}
	r := f.Rope(keys)
	r.Base = f.Float("rope.freq_base_swa")
	s.rope = newRope(f, r, s.plain+s.rotated, true)
	s.scale = 1 / rootOf(keys)
	return s
}
