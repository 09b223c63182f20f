package ref

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/llm"
)

// live returns the state of a sequence. It is zero where the sequence begins.
func (m *Machine) live(s llm.Span, b *llm.Batch, id, size int) []float64 {
	k := state{s.Seq, id}
	if b.Pos[s.First] == 0 || m.states[k] == nil {
		m.states[k] = make([]float64, size)
	}
	return m.states[k]
}

// shortConv computes y_t = f(Σ_i w_i·x_{t-k+1+i} + bias) for each column.
func (m *Machine) shortConv(op graph.ShortConv, x [][]float64, b *llm.Batch) [][]float64 {
	w, bias, k := m.weight(op.W), m.weight(op.Bias), op.W.Cols()
	out := make([][]float64, len(x))
	for _, s := range b.Spans {
		width := len(x[s.First])
		past := m.live(s, b, op.State, (k-1)*width) // [k-1][width], oldest first
		for r := s.First; r < s.First+s.Rows; r++ {
			window := append(append([]float64(nil), past...), x[r]...)
			out[r] = each(x[r], func(c int, _ float64) float64 {
				var sum float64
				for i := range k {
					sum += w[c*k+i] * window[i*width+c]
				}
				if bias != nil {
					sum += bias[c]
				}
				return apply(op.F, sum)
			})
			copy(past, window[width:])
		}
	}
	return out
}

// deltaNet computes S ← e^g·S, then S ← S + k·β(v - kᵀS), then o = (scale·q)ᵀS.
// If the op is plain, it computes S ← e^g·S + k·βv instead of the first two.
func (m *Machine) deltaNet(op graph.DeltaNet, in [][][]float64, b *llm.Batch) [][]float64 {
	dk, dv := op.KeyDim, op.ValueDim
	out := make([][]float64, len(b.Tokens))
	for _, s := range b.Spans {
		all := m.live(s, b, op.State, op.ValueHeads*dk*dv)
		for r := s.First; r < s.First+s.Rows; r++ {
			for h := range op.ValueHeads {
				key := h % op.KeyHeads
				if op.Grouped {
					key = h / (op.ValueHeads / op.KeyHeads)
				}
				st := all[h*dk*dv : (h+1)*dk*dv]
				q, k := in[0][r][key*dk:(key+1)*dk], in[1][r][key*dk:(key+1)*dk]
				v := in[2][r][h*dv : (h+1)*dv]
				decay, beta := math.Exp(in[3][r][h]), in[4][r][h]
				for i := range st {
					st[i] *= decay
				}
				o := make([]float64, dv)
				for j := range dv {
					var read float64
					for i := range dk {
						if !op.Plain {
							read += k[i] * st[i*dv+j]
						}
					}
					d := beta * (v[j] - read)
					for i := range dk {
						st[i*dv+j] += k[i] * d
						o[j] += float64(op.Scale) * q[i] * st[i*dv+j]
					}
				}
				out[r] = append(out[r], o...)
			}
		}
	}
	return out
}
