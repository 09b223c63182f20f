package ref

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/llm"
)

// selfAttend attends within the batch. Each row attends to the rows of its span
// or of its window.
func selfAttend(op graph.SelfAttend, in [][][]float64, b *llm.Batch) [][]float64 {
	out := make([][]float64, len(b.Tokens))
	see := func(first, end int) {
		for r := first; r < end; r++ {
			for h := range op.Heads {
				out[r] = append(out[r], selfHead(op, in, r, h, first, end)...)
			}
		}
	}
	if op.Windowed {
		first := 0
		for _, end := range b.Windows {
			see(first, int(end))
			first = int(end)
		}
		return out
	}
	for _, s := range b.Spans {
		see(s.First, s.First+s.Rows)
	}
	return out
}

// selfHead computes one head of one row, over the rows from first to end-1.
func selfHead(op graph.SelfAttend, in [][][]float64, row, head, first, end int) []float64 {
	part := func(x [][]float64, r int) []float64 { return x[r][head*op.Dim : (head+1)*op.Dim] }
	q := part(in[0], row)
	scores := make([]float64, end-first)
	top := math.Inf(-1)
	for r := range scores {
		for i, k := range part(in[1], first+r) {
			scores[r] += q[i] * k
		}
		scores[r] *= float64(op.Scale)
		top = math.Max(top, scores[r])
	}
	out, sum := make([]float64, op.Dim), 0.0
	for r, s := range scores {
		w := math.Exp(s - top)
		sum += w
		for i, v := range part(in[2], first+r) {
			out[i] += w * v
		}
	}
	for i := range out {
		out[i] /= sum
	}
	return out
}

// merge joins adjacent rows, or computes their mean.
func merge(op graph.Merge, x [][]float64, b *llm.Batch) [][]float64 {
	var out [][]float64
	for _, first := range b.Outputs {
		var y []float64
		if op.Mean {
			y = make([]float64, len(x[first]))
		}
		for _, row := range x[first : int(first)+op.Rows] {
			if !op.Mean {
				y = append(y, row...)
				continue
			}
			for i, v := range row {
				y[i] += v / float64(op.Rows)
			}
		}
		out = append(out, y)
	}
	return out
}

// supplied replaces the rows for which the batch supplies an embedding, or adds
// the embedding to them.
func supplied(op graph.Supplied, x [][]float64, b *llm.Batch) [][]float64 {
	out := make([][]float64, len(x))
	for r, row := range x {
		out[r] = row
		if b.Embds == nil || b.Embds[r] == nil {
			continue
		}
		given := widen(b.Embds[r][op.Part*len(row) : (op.Part+1)*len(row)])
		if op.Add {
			given = addTo(given, row)
		}
		out[r] = given
	}
	return out
}
