package cpu

import (
	"fmt"
	"math"
	"sync/atomic"

	"godwit/engine/backend"
	"godwit/engine/cpu/attn"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// partPages is the number of pages whose softmax is computed on its own; the
// parts of a row are combined in order, whoever computed them.
const partPages = 512 / kv.PageCells

// attention is the Attend op of one layer.
type attention struct {
	graph.Attention
	p       *program
	q, out  graph.Value
	cache   *layerCache
	sinks   []float32
	group   int // query heads that share a KV head
	block   int // rows whose queries are worked on together
	workers []attnWorker
	skips   *skipCount
	partial []softmax // [task rows·group][part] when the context is split
	parts   int
	kForm   *attn.Form
	vForm   *attn.Form
	temper  kv.Temper
}

// attnWorker is one worker's memory.
type attnWorker struct {
	queries     *attn.Queries
	scores      []float32
	acc         []float32 // of all parts, one after another
	scratch     *attn.Scratch
	part, total []softmax
}

// softmax is an unfinished softmax: the running maximum, the sum of weights
// and the weighted sum of V in the rotated domain.
type softmax struct {
	max, sum float32
	acc      []float32
}

// skipCount counts what Sparse V did in a layer.
type skipCount struct {
	layer               int
	considered, skipped atomic.Int64
	_                   [40]byte // keep counters of layers on their own cache lines
}

// maxQueries bounds the queries of a block so that their accumulators stay in cache.
const maxQueries = 48

// attend adds the cache write and the attention of a layer.
func (c *compiler) attend(n graph.Node, a graph.Attention) error {
	p := c.p
	own := a.Layer
	if n.In[1] == graph.None {
		own = a.Share
	}
	l, err := p.cache.layer(own)
	if err != nil {
		return err
	}
	if l.kvHeads != a.KVHeads {
		return fmt.Errorf("cpu: layer %d has %d KV heads, its cache %d", a.Layer, a.KVHeads, l.kvHeads)
	}
	if n.In[1] != graph.None {
		c.rowOp(graph.BatchRows, func(row int) { p.writeKV(l, a, n, row) })
	}
	t := &attention{Attention: a, p: p, q: n.In[0], out: n.Out, cache: l, sinks: p.weights.floats(a.Sinks), group: a.Heads / a.KVHeads, skips: &p.skips[a.Layer]}
	t.kForm, t.vForm, t.temper = l.k.form, l.v.form, l.temper
	if a.MLA {
		t.vForm = l.k.form
	}
	t.block = max(1, min(16, maxQueries/t.group))
	t.parts = p.sizes.Pages[l.group]/partPages + 2
	t.partial = make([]softmax, 4*p.backend.pool.workers*t.group*t.parts)
	for i := range t.partial {
		t.partial[i].acc = make([]float32, t.vForm.Padded)
	}
	for range p.backend.pool.workers {
		t.workers = append(t.workers, t.newWorker())
	}
	c.stage(newStage(t.tasks, t.run))
	c.stage(newStage(t.combineTasks, t.combine))
	return nil
}

func (t *attention) newWorker() attnWorker {
	n := t.block * t.group
	w := attnWorker{
		queries: t.kForm.NewQueries(n),
		scores:  make([]float32, n*attn.Cells),
		acc:     make([]float32, n*t.vForm.Padded),
		scratch: attn.NewScratch(max(t.kForm.Padded, t.vForm.Padded)),
		part:    make([]softmax, n),
		total:   make([]softmax, n),
	}
	for i := range n {
		w.part[i].acc = w.acc[i*t.vForm.Padded : (i+1)*t.vForm.Padded]
		w.total[i].acc = make([]float32, t.vForm.Padded)
	}
	return w
}

// writeKV stores the key and value of one row.
func (p *program) writeKV(l *layerCache, a graph.Attention, n graph.Node, row int) {
	s := p.span[row]
	pos := int(p.b.Pos[row])
	page := p.b.Tables[l.group][s][pos/kv.PageCells]
	at := kv.At{Pos: pos, RopeBase: a.RopeBase}
	k := p.row(n.In[1], row)
	for h := range a.KVHeads {
		l.k.form.Write(l.k.head(page, h), pos%kv.PageCells, k[h*a.DimK:(h+1)*a.DimK], at)
	}
	if n.In[2] == graph.None {
		return
	}
	v := p.row(n.In[2], row)
	for h := range a.KVHeads {
		l.v.form.Write(l.v.head(page, h), pos%kv.PageCells, v[h*a.DimV:(h+1)*a.DimV], at)
	}
}

// job is the work of one task: some rows of a span for one KV head.
type job struct {
	span        int
	head        int
	first, rows int // rows of the batch
	lo, hi      int // pages that some row sees
	split       int // index among the split jobs, -1 if the context is not split
	part        int // first part when split
}

// splits reports whether the spans of this batch are so few that their
// contexts are divided among the workers.
func (t *attention) splits() bool {
	n := 0
	for _, s := range t.p.b.Spans {
		if s.Rows > 1 {
			return false
		}
		n++
	}
	return n*t.KVHeads < 4*t.p.backend.pool.workers
}

// pages is the range of pages that rows first..first+n of a span see.
func (t *attention) pages(s llm.Span, first, n int) (lo, hi int) {
	b := t.p.b
	from, to := int(b.Pos[first]), int(b.Pos[first+n-1])
	if t.Bidirectional {
		return 0, (s.Len + kv.PageCells - 1) / kv.PageCells
	}
	if t.Window > 0 {
		lo = max(0, from-t.Window+1) / kv.PageCells
	}
	return lo, to/kv.PageCells + 1
}

// partsOf is the number of parts that a page range touches.
func partsOf(lo, hi int) int { return (hi-1)/partPages - lo/partPages + 1 }

func (t *attention) tasks() int {
	n, split := 0, t.splits()
	for _, s := range t.p.b.Spans {
		if split {
			n += t.KVHeads * partsOf(t.pages(s, s.First, 1))
		} else {
			n += t.KVHeads * ((s.Rows + t.block - 1) / t.block)
		}
	}
	return n
}

// find returns the job of a task.
func (t *attention) find(task int) job {
	split := t.splits()
	for i, s := range t.p.b.Spans {
		if split {
			lo, hi := t.pages(s, s.First, 1)
			parts := partsOf(lo, hi)
			if task < parts*t.KVHeads {
				return job{span: i, head: task / parts, first: s.First, rows: 1, lo: lo, hi: hi, split: i*t.KVHeads + task/parts, part: task % parts}
			}
			task -= parts * t.KVHeads
			continue
		}
		blocks := (s.Rows + t.block - 1) / t.block
		if task < blocks*t.KVHeads {
			first := task / t.KVHeads * t.block
			n := min(t.block, s.Rows-first)
			lo, hi := t.pages(s, s.First+first, n)
			return job{span: i, head: task % t.KVHeads, first: s.First + first, rows: n, lo: lo, hi: hi, split: -1}
		}
		task -= blocks * t.KVHeads
	}
	panic("cpu: attention task out of range")
}

// run works on one job.
func (t *attention) run(worker, task int) {
	j := t.find(task)
	w := &t.workers[worker]
	w.queries.N = j.rows * t.group
	for r := range j.rows {
		q := t.p.row(t.q, j.first+r)[j.head*t.group*t.DimK:]
		for g := range t.group {
			w.queries.Set(t.kForm, r*t.group+g, q[g*t.DimK:(g+1)*t.DimK])
		}
	}
	if j.split >= 0 {
		lo := j.lo/partPages + j.part
		t.runPart(w, j, lo)
		for g := range t.group {
			to := &t.partial[(j.split*t.group+g)*t.parts+j.part]
			to.max, to.sum = w.part[g].max, w.part[g].sum
			copy(to.acc, w.part[g].acc)
		}
		return
	}
	for i := range w.queries.N {
		w.total[i].reset()
	}
	for part := j.lo / partPages; part <= (j.hi-1)/partPages; part++ {
		t.runPart(w, j, part)
		for i := range w.queries.N {
			w.total[i].merge(&w.part[i])
		}
	}
	for r := range j.rows {
		for g := range t.group {
			t.finish(&w.total[r*t.group+g], j.first+r, j.head*t.group+g)
		}
	}
}

// runPart computes the softmax of a job over one part of the context.
func (t *attention) runPart(w *attnWorker, j job, part int) {
	for i := range w.queries.N {
		w.part[i].reset()
	}
	b := t.p.b
	table := b.Tables[t.cache.group][j.span]
	length := b.Spans[j.span].Len
	var considered, skipped int
	for pg := max(j.lo, part*partPages); pg < min(j.hi, (part+1)*partPages); pg++ {
		cells := min(kv.PageCells, length-pg*kv.PageCells)
		t.kForm.Scores(w.scores, w.queries, t.cache.k.head(table[pg], j.head), cells, w.scratch)
		seen := false
		for r := range j.rows {
			lo, hi := t.visible(int(b.Pos[j.first+r]), pg, cells)
			for g := range t.group {
				i := r*t.group + g
				s := w.scores[i*attn.Cells : (i+1)*attn.Cells]
				if lo >= hi {
					clear(s)
					continue
				}
				seen = true
				considered += hi - lo
				skipped += t.weigh(s, &w.part[i], lo, hi, int(b.Pos[j.first+r]))
			}
		}
		if !seen {
			continue
		}
		t.accumulate(w, table[pg], j.head, cells)
	}
	t.skips.considered.Add(int64(considered))
	t.skips.skipped.Add(int64(skipped))
}

// accumulate adds the weighted V of a page to every query's part.
func (t *attention) accumulate(w *attnWorker, page int32, head, cells int) {
	side := &t.cache.v
	if t.MLA {
		side = &t.cache.k
	}
	t.vForm.Accumulate(w.acc, w.scores, w.queries.N, side.head(page, head), cells, w.scratch)
}

// visible is the range of cells of a page that a row at pos sees.
func (t *attention) visible(pos, page, cells int) (lo, hi int) {
	first := page * kv.PageCells
	hi = cells
	if !t.Bidirectional {
		hi = min(hi, pos+1-first)
	}
	if t.Window > 0 {
		lo = max(0, pos-t.Window+1-first)
	}
	return lo, hi
}

// weigh turns the scores of the visible cells into weights relative to the
// part's running maximum, rescaling what was summed under an older maximum.
// Weights below the Sparse V threshold stay in the sum and become zero.
func (t *attention) weigh(s []float32, part *softmax, lo, hi, pos int) (skipped int) {
	v := s[lo:hi]
	kernel.Scale(v, v, t.Scale)
	if t.Softcap > 0 {
		kernel.Softcap(v, v, t.Softcap)
	}
	if t.temper.On() {
		seen := pos + 1
		if t.Window > 0 {
			seen = min(seen, t.Window)
		}
		kernel.Scale(v, v, t.temper.Factor(seen))
	}
	top := max(part.max, kernel.Max(v))
	if top > part.max && part.sum > 0 {
		f := exp(part.max - top)
		part.sum *= f
		kernel.Scale(part.acc, part.acc, f)
	}
	part.max = top
	part.sum += kernel.ExpSum(v, v, top)
	clear(s[:lo])
	clear(s[hi:])
	if tau := t.p.sizes.SparseV; tau > 0 {
		for i, x := range v {
			if x < tau {
				v[i] = 0
				skipped++
			}
		}
	}
	return skipped
}

func exp(x float32) float32 { return float32(math.Exp(float64(x))) }

func (s *softmax) reset() {
	s.max, s.sum = float32(math.Inf(-1)), 0
	clear(s.acc)
}

// merge adds a later part.
func (s *softmax) merge(part *softmax) {
	if part.sum == 0 {
		return
	}
	if s.sum == 0 {
		s.max, s.sum = part.max, part.sum
		copy(s.acc, part.acc)
		return
	}
	top := max(s.max, part.max)
	old, add := exp(s.max-top), exp(part.max-top)
	s.max, s.sum = top, s.sum*old+part.sum*add
	kernel.Scale(s.acc, s.acc, old)
	kernel.Axpy(s.acc, part.acc, add)
}

// finish writes the output of one query head of one row.
func (t *attention) finish(s *softmax, row, head int) {
	if t.sinks != nil {
		sink := t.sinks[head]
		top := max(s.max, sink)
		f := exp(s.max - top)
		s.sum = s.sum*f + exp(sink-top)
		kernel.Scale(s.acc, s.acc, f)
	}
	kernel.Scale(s.acc, s.acc, 1/s.sum)
	out := t.p.row(t.out, row)[head*t.DimV : (head+1)*t.DimV]
	t.vForm.Finish(out, s.acc)
}

func (t *attention) combineTasks() int {
	if !t.splits() {
		return 0
	}
	return len(t.p.b.Spans) * t.Heads
}

// combine folds the parts of one query head of a split span.
func (t *attention) combine(worker, task int) {
	span, head := task/t.Heads, task%t.Heads
	s := t.p.b.Spans[span]
	parts := partsOf(t.pages(s, s.First, 1))
	total := &t.workers[worker].total[0]
	total.reset()
	for i := range parts {
		total.merge(&t.partial[(span*t.Heads+head)*t.parts+i])
	}
	t.finish(total, s.First, head)
}

var _ backend.Program = (*program)(nil)
