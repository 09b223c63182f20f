package cpu

import (
	"fmt"
	"math"

	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/llm"
)

// checkPictures rejects batches whose lists about pictures do not fit their rows.
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

// supplied copies a row, or puts the embedding that the batch supplies in its
// place.
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

// merge joins the rows from an output row on, or takes their mean.
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

// selfRows is the number of query rows of a task of SelfAttend.
const selfRows = 32

// selfTask is some rows of one head and the rows that they see.
type selfTask struct{ head, first, rows, from, to int }

// selfAttention is a SelfAttend op. Each worker keeps the scores of one row.
type selfAttention struct {
	graph.SelfAttend
	p            *program
	q, k, v, out graph.Value
	tasks        []selfTask
	scores       [][]float32
}

func (c *compiler) selfAttend(n graph.Node, op graph.SelfAttend) stage {
	p := c.p
	t := &selfAttention{SelfAttend: op, p: p, q: n.In[0], k: n.In[1], v: n.In[2], out: n.Out}
	for range p.backend.pool.workers {
		t.scores = append(t.scores, make([]float32, p.sizes.Rows))
	}
	return newStage(t.plan, func(worker, task int) { t.run(t.scores[worker], &t.tasks[task]) })
}

// plan lists the tasks of a batch and returns their number.
func (t *selfAttention) plan() int {
	t.tasks = t.tasks[:0]
	add := func(from, to int) {
		for h := range t.Heads {
			for r := from; r < to; r += selfRows {
				t.tasks = append(t.tasks, selfTask{h, r, min(selfRows, to-r), from, to})
			}
		}
	}
	if t.Windowed {
		from := 0
		for _, to := range t.p.b.Windows {
			add(from, int(to))
			from = int(to)
		}
		return len(t.tasks)
	}
	for _, s := range t.p.b.Spans {
		add(s.First, s.First+s.Rows)
	}
	return len(t.tasks)
}

func (t *selfAttention) run(scores []float32, j *selfTask) {
	rows := len(t.p.b.Tokens)
	width, at := t.Heads*t.Dim, j.head*t.Dim
	q, k, v := t.p.all(t.q, rows), t.p.all(t.k, rows), t.p.all(t.v, rows)
	for r := j.first; r < j.first+j.rows; r++ {
		s := scores[:j.to-j.from]
		top := float32(math.Inf(-1))
		x := q[r*width+at:][:t.Dim]
		for i := range s {
			s[i] = kernel.Dot(x, k[(j.from+i)*width+at:][:t.Dim]) * t.Scale
			top = max(top, s[i])
		}
		y := t.p.row(t.out, r)[at : at+t.Dim]
		clear(y)
		var sum float32
		for i := range s {
			w := exp(s[i] - top)
			sum += w
			kernel.Axpy(y, v[(j.from+i)*width+at:][:t.Dim], w)
		}
		kernel.Scale(y, y, 1/sum)
	}
}
