package cpu

import (
	"fmt"

	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/llm"
)

// checkPictures rejects batches whose picture data does not fit their rows.
func checkPictures(b *llm.Batch) error {
	n := len(b.Tokens)
	if b.Coords != nil && len(b.Coords) != n || b.Embds != nil && len(b.Embds) != n || b.Sees != nil && len(b.Sees) != n {
		return fmt.Errorf("cpu: %d coordinates, %d embeddings and %d tile ends for %d rows", len(b.Coords), len(b.Embds), len(b.Sees), n)
	}
	if k := len(b.Windows); k > 0 && int(b.Windows[k-1]) > n {
		return fmt.Errorf("cpu: a window ends at row %d of %d", b.Windows[k-1], n)
	}
	return nil
}

// supplied copies a row, or replaces it by the embedding that the batch
// supplies.
func (p *program) supplied(op graph.Supplied, dst, x []float32, row int) {
	if p.b.Embds == nil || p.b.Embds[row] == nil {
		copy(dst, x)
		return
	}
	part := p.b.Embds[row][op.Part*len(x) : (op.Part+1)*len(x)]
	if op.Add {
		kernel.Add(dst, x, part)
		return
	}
	copy(dst, part)
}

// clamp bounds every element; NaN stays.
func clamp(dst, x []float32, low, high float32) {
	for i, v := range x {
		dst[i] = min(max(v, low), high)
	}
}

// merge concatenates op.Rows input rows, beginning with an output row, or takes
// their mean.
func (c *compiler) merge(n graph.Node, op graph.Merge) rowOp {
	p := c.p
	return func(row int) {
		first, y := int(p.b.Outputs[row]), p.row(n.Out, row)
		if !op.Mean {
			copy(y, p.all(n.In[0], len(p.b.Tokens))[first*len(y)/op.Rows:])
			return
		}
		clear(y)
		for r := range op.Rows {
			kernel.Add(y, y, p.row(n.In[0], first+r))
		}
		kernel.Scale(y, y, 1/float32(op.Rows))
	}
}
