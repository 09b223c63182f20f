package arch

import (
	"godwit/engine/graph"
	"godwit/engine/model"
)

func init() {
	model.Register("ernie4_5", model.Arch{Open: openErnie})
	model.Register("ernie4_5-moe", model.Arch{Open: openErnieMoE, Ahead: true})
	model.Register("paddleocr", model.Arch{Open: openPaddleOCR})
}

// openErnie opens ERNIE 4.5: Llama with optional biases on q, k and v.
// Source: ERNIE 4.5 Technical Report, 2025.
func openErnie(f *model.File) (model.Model, error) { return plain{}.open(f) }

// openErnieMoE opens ERNIE 4.5's mixtures of experts. After the dense first blocks,
// every block or every n-th block has experts and a shared expert.
func openErnieMoE(f *model.File) (model.Model, error) {
	leading, step := f.IntOr("leading_dense_block_count", 0), max(f.IntOr("interleave_moe_layer_step", 1), 1)
	return plain{
		feed: func(f *model.File, c *model.Config, layer, hidden int) half {
			if layer < leading || (layer+1)%step != 0 {
				return bindFFN(f, c, layer, hidden, graph.SiLU)
			}
			r := readRouting(f, c, layer, graph.Softmax, true)
			n := expertSize(f, c, layer, r)
			e := bindExperts(f, c, layer, n, r, graph.SiLU)
			e.choiceBias(f, layer)
			if shared := f.IntOr("expert_shared_feed_forward_length", 0); shared > 0 {
				e.bindShared(f, c, layer, shared)
			}
			return e
		},
	}.open(f)
}

// openPaddleOCR opens the text part of PaddleOCR-VL: ERNIE 4.5 with sectioned RoPE
// over the halves of a head. Source: arXiv 2510.14528.
func openPaddleOCR(f *model.File) (model.Model, error) {
	return plain{rope: sections(false)}.open(f)
}
