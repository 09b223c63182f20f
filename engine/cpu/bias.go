package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// bias is added to scores, depending on the distance between query and key.
type bias struct {
	slopes []float32   // indexed by head; nil for none
	values [][]float32 // indexed by head, then by distance from -reach (later keys) to +reach; nil for none
	reach  int
}

// bias prepares the bias of a layer; nil for none.
func (c *compiler) bias(a *graph.Attention) *bias {
	if !a.Bias.On() {
		return nil
	}
	b := &bias{}
	if a.Bias.ALiBi != 0 {
		for h := range a.Heads {
			b.slopes = append(b.slopes, a.Bias.Slope(h, a.Heads))
		}
	}
	if r := a.Bias.Relative; r != nil {
		b.reach = 256 // all more distant keys share a bucket
		w := c.p.weights.floats(r)
		for h := range a.Heads {
			var list []float32
			for d := -b.reach; d <= b.reach; d++ {
				list = append(list, w[a.Bias.Bucket(d, a.Bidirectional)*a.Heads+h])
			}
			b.values = append(b.values, list)
		}
	}
	return b
}

// at returns the bias of a head for a key that is behind positions before the
// query.
func (b *bias) at(head, behind int) (sum float32) {
	if b.slopes != nil {
		sum = -b.slopes[head] * float32(max(behind, -behind))
	}
	if b.values != nil {
		sum += b.values[head][b.reach+max(-b.reach, min(behind, b.reach))]
	}
	return sum
}

// addBias scales the scores s of n pages, starting at page lo, and adds the bias of a head for a
// row at pos.
func (t *attention) addBias(s []float32, stride, pos, lo, n, head int) {
	for p := range n {
		row := s[p*stride:][:attn.Cells]
		for i := range row {
			row[i] = row[i]*t.Scale + t.bias.at(head, (lo+p)*kv.PageCells+i-pos)
		}
	}
}
