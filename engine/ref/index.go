package ref

import (
	"math"
	"sort"

	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// index stores k and returns the positions with the largest Σ_h w_h·max(0,
// q_h·k).
func (m *Machine) index(op graph.Index, in [][][]float64, b *llm.Batch) [][]float64 {
	out := make([][]float64, len(b.Tokens))
	for _, s := range b.Spans {
		for r := s.First; r < s.First+s.Rows; r++ {
			m.store(s.Seq, op.Layer, kv.K, int(b.Pos[r]), in[1][r], op.DimK, op.RopeBase)
		}
	}
	for _, s := range b.Spans {
		for r := s.First; r < s.First+s.Rows; r++ {
			pos := int(b.Pos[r])
			lo, hi := sees(op.Attention, pos, s.Len)
			type scored struct{ at, score float64 }
			var list []scored
			for p := lo; p < hi; p++ {
				at := cell{s.Seq, op.Layer, kv.K, p, m.tier(op.Layer, kv.K, p, pos)}
				k, ok := m.keys[at]
				if !ok {
					k = m.cells[at]
				}
				var score float64
				for h := range op.Heads {
					var dot float64
					for i, v := range in[0][r][h*op.DimK : (h+1)*op.DimK] {
						dot += v * k[i]
					}
					score += in[2][r][h] * math.Max(dot, 0)
				}
				list = append(list, scored{float64(p), score})
			}
			sort.SliceStable(list, func(i, j int) bool { return list[i].score > list[j].score })
			for i := range op.Top {
				at := -1.0
				if i < len(list) {
					at = list[i].at
				}
				out[r] = append(out[r], at)
			}
		}
	}
	return out
}
