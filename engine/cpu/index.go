package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// index is the Index op of a layer. It computes keys and scores like attention, but has no values.
type index struct {
	*attention
	weights graph.Value
	top     int
	scores  [][]float32 // scores of all positions, by worker
	lists   [][]int32   // list of all positions, by worker
}

// index adds the cache write and the selection of positions for a layer.
func (c *compiler) index(n graph.Node, op graph.Index) error {
	t, err := c.attention(graph.Node{Op: n.Op, In: []graph.Value{n.In[0], n.In[1], graph.None}, Out: n.Out}, op.Attention)
	if err != nil {
		return err
	}
	x := &index{attention: t, weights: n.In[2], top: op.Top}
	room := c.p.sizes.Pages[t.cache.group] * kv.PageCells
	if err := fits("index", room, len(t.workers)); err != nil {
		return err
	}
	for range t.workers {
		x.scores, x.lists = append(x.scores, make([]float32, room)), append(x.lists, make([]int32, 0, room))
	}
	c.stage(newStage(x.pages, x.write))
	if t.order.of > 0 {
		for _, now := range []bool{true, false} {
			c.stage(newStage(func() int { return t.packTasks(now) }, func(worker, task int) { t.pack(worker, task, now) }))
		}
	}
	c.stage(newStage(func() int { return len(c.p.b.Tokens) }, x.choose))
	return nil
}

// pages returns the number of pages that this batch writes.
func (x *index) pages() (n int) {
	for _, s := range x.p.b.Spans {
		n += x.written(s.First, s.Rows)
	}
	return n
}

// choose writes the best positions of a row.
func (x *index) choose(worker, row int) {
	b := x.p.b
	span := int(x.p.span[row])
	s := b.Spans[span]
	lo, hi := x.attention.pages(s, row, 1)
	j := job{span: span, first: row, rows: 1, lo: lo, hi: hi, split: -1}
	w := x.workers[worker]
	x.prepare(w, &j)
	scores := x.scores[worker]
	for chunk := x.cuts.chunk(lo); chunk <= x.cuts.chunk(hi-1); chunk++ {
		x.scoreChunk(w, &j, max(lo, x.cuts.start(chunk)), min(hi, x.cuts.start(chunk+1)), scores)
	}
	x.counts[worker].add(&w.attnCounted)
	from, to := x.Sees(int(b.Pos[row]), s.Len)
	list := x.lists[worker][:0]
	for at := from; at < to; at++ {
		list = append(list, int32(at))
	}
	best(list, scores, x.top)
	out := x.p.row(x.out, row)
	for i := range out {
		out[i] = -1
		if i < len(list) {
			out[i] = float32(list[i])
		}
	}
}

// scoreChunk writes the scores of the positions of pages lo to hi-1.
func (x *index) scoreChunk(w *attnWorker, j *job, lo, hi int, scores []float32) {
	p := jobPages{job: j, t: x.attention}
	p.find()
	k := x.keys()
	visits := w.keys[:hi-lo]
	k.find(visits, &p, lo)
	stride := w.queries.N * attn.Cells
	for i := range visits {
		visits[i].At, visits[i].Cells, visits[i].Ahead = i*stride, kv.PageCells, 0
	}
	visits[hi-lo-1].Cells = p.cells(hi - 1)
	x.score(w, &p, &k, lo, visits)
	weights := x.p.row(x.weights, j.first)
	for i := range visits {
		out := scores[(lo+i)*kv.PageCells:][:visits[i].Cells]
		clear(out)
		for h, weight := range weights {
			for c, v := range w.scores[i*stride+h*attn.Cells:][:len(out)] {
				out[c] += weight * max(v, 0)
			}
		}
	}
}

// only removes all positions from visible that a row has not chosen, and returns the
// number of remaining positions. visible begins at page lo.
func only(visible []uint64, lo int, chosen []float32) (n int) {
	var keep [longPages]uint64
	first := lo * kv.PageCells
	for _, at := range chosen {
		if i := int(at) - first; i >= 0 && i < len(visible)*kv.PageCells {
			bit := uint64(1) << (i % kv.PageCells)
			if visible[i/kv.PageCells]&bit&^keep[i/kv.PageCells] != 0 {
				keep[i/kv.PageCells] |= bit
				n++
			}
		}
	}
	copy(visible, keep[:len(visible)])
	return n
}
