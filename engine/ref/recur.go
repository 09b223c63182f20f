package ref

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/llm"
)

// scan computes S[i][j] ← e^(dt_j·A_ji)·S[i][j] + dt_j·x_j·b_i and y_j = Σ_i
// c_i·S[i][j].
func (m *Machine) scan(op graph.Scan, in [][][]float64, b *llm.Batch) [][]float64 {
	a, keys := m.weight(op.A), op.A.Cols()
	out := make([][]float64, len(b.Tokens))
	for _, s := range b.Spans {
		width := len(in[0][s.First])
		st := m.live(s, b, op.State, keys*width)
		for r := s.First; r < s.First+s.Rows; r++ {
			out[r] = make([]float64, width)
			for j := range width {
				x, dt := in[0][r][j], in[1][r][j]
				for i := range keys {
					h := &st[i*width+j]
					*h = math.Exp(dt*a[j*keys+i])**h + dt*x*in[2][r][i]
					out[r][j] += in[3][r][i] * *h
				}
			}
		}
	}
	return out
}

// recur computes S ← e^g·S + b·(aᵀS′) + k·vᵀ and o = scale·qᵀS. The op decides
// whether S′ and the S of o are taken before or after the decay and the update.
func (m *Machine) recur(op graph.Recur, in [][][]float64, b *llm.Batch) [][]float64 {
	out := make([][]float64, len(b.Tokens))
	for _, s := range b.Spans {
		keys, values := len(in[0][s.First])/op.Heads, len(in[2][s.First])/op.Heads
		all := m.live(s, b, op.State, op.Heads*keys*values)
		for r := s.First; r < s.First+s.Rows; r++ {
			out[r] = make([]float64, op.Heads*values)
			for h := range op.Heads {
				for j := range values {
					column := func(i int) *float64 { return &all[(h*keys+i)*values+j] }
					var read, o float64
					for i := range keys {
						old := *column(i)
						if op.Before {
							o += in[0][r][h*keys+i] * old
						}
						if op.Late {
							old *= math.Exp(in[3][r][h*keys+i])
						}
						if in[4] != nil {
							read += in[4][r][h*keys+i] * old
						}
					}
					for i := range keys {
						next := math.Exp(in[3][r][h*keys+i])**column(i) + in[1][r][h*keys+i]*in[2][r][h*values+j]
						if in[5] != nil {
							next += in[5][r][h*keys+i] * read
						}
						*column(i) = next
						if !op.Before {
							o += in[0][r][h*keys+i] * next
						}
					}
					out[r][h*values+j] = float64(op.Scale) * o
				}
			}
		}
	}
	return out
}
