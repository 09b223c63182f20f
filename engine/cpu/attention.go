package cpu

import (
	"fmt"
	"math"
	"math/bits"
	"sync/atomic"

	"godwit/engine/backend"
	"godwit/engine/cpu/attn"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// A part is a run of pages with a softmax of its own. The parts of a row are
// merged in order, whichever worker computed them. The first two parts are
// short, the next ones twice as long, the rest long: few parts for a long
// context, and enough for every worker for a short one.
const (
	shortPages  = 512 / kv.PageCells
	middlePages = 2 * shortPages
	longPages   = 4 * shortPages
)

// cuts is the number of leading pages that do not belong to long parts. Each
// new part starts another memory stream and costs a merge.
type cuts int

// cutsFor returns the cuts of a layer: fewer heads mean fewer long parts.
func cutsFor(kvHeads int) cuts { return cuts(longPages * max(1, 4/kvHeads)) }

// chunk returns the part that holds a page.
func (c cuts) chunk(page int) int {
	switch n := int(c); {
	case page < 2*shortPages:
		return page / shortPages
	case page < n:
		return page/middlePages + 1
	default:
		return n/middlePages + 1 + (page-n)/longPages
	}
}

// start returns the first page of a part.
func (c cuts) start(chunk int) int {
	switch last := int(c)/middlePages + 1; {
	case chunk <= 2:
		return chunk * shortPages
	case chunk <= last:
		return (chunk - 1) * middlePages
	default:
		return int(c) + (chunk-last)*longPages
	}
}

// room returns the largest number of parts that n consecutive pages touch. The
// worst range begins with the last page of the first part.
func (c cuts) room(n int) int { return c.chunk(n+shortPages-2) + 1 }

// attention is the Attend op of one layer.
type attention struct {
	graph.Attention
	p          *program
	q, k, v    graph.Value
	out        graph.Value
	cache      *layerCache
	sinkLogits []float32
	bias       *bias // of the scores; nil for none
	cuts       cuts
	group      int         // query heads per KV head
	block      int         // rows whose queries are processed together
	per        int         // jobs per task in this batch
	piece      int         // pages per task where this batch divides contexts
	counts     []attnCount // one per worker
	*attnMemory
	attnForms
	temper kv.Temper
	order  packOrder // place among the layers that are packed by page

	qRope, kRope *rope // RoPE done by attention; nil where q and k already have it
	quantise     bool  // attention also quantises its output
	inPlace      bool  // the output is read in quantised form only
}

// attnForms are the forms of K and V that a layer reads: packed, exact and
// sinks. Exact and sinks may be nil.
type attnForms struct{ kForm, vForm, kExact, vExact, kPinned, vPinned *attn.Form }

// attnWorker is the memory of one worker; layers of one shape share it.
type attnWorker struct {
	queries      *attn.Queries
	exact        *attn.Queries // queries prepared for exact keys
	pinned       *attn.Queries // queries prepared for sinks
	pinnedScores []float32
	scores       []float32
	sum          []float32 // accumulators of the current part, Padded values for each query
	scratch      *attn.Scratch
	normalised   []float32 // a key or query with levelled channels
	roped        []float32 // a key, then the queries of a row, after RoPE
	out          []float32 // output of one query head
	offset       []float32 // per query, what its scores lack because packed keys are levelled
	chunk, total []softmax
	keys, values [longPages]attn.Visit
	single       [1]attn.Visit
	prefetchNext []byte // the first page of the next job
	ready        prepared
	prefix       prefix
	attnCounted
}

// prepared identifies the queries that a worker holds ready. A task can reuse
// what the task before it prepared.
type prepared struct {
	t     *attention
	epoch uint32
	row   int
	head  int
}

// prefix records how many leading parts of a split job this worker has already
// merged, so that they need not move to the worker that merges the rest.
type prefix struct {
	t      *attention
	epoch  uint32
	split  int
	chunks int
}

// attnMemory is the memory that layers of one shape share.
type attnMemory struct {
	workers []*attnWorker
	partial []softmax       // [job that is split][part][query]
	arrived []atomic.Uint64 // finished parts of each split job; the upper half counts merged parts
	jobs    int             // jobs that may be split
	chunks  int             // parts of the longest context
}

// attnShape is the key of an attnMemory.
type attnShape struct {
	attnForms
	group  int
	block  int
	chunks int
}

// attnCount counts the work of attention in a layer: cells that Sparse V
// considered and skipped, bytes of K and V read, and, by side, blocks written
// with a saturated scale.
type attnCount struct {
	considered, skipped atomic.Int64
	kBytes, vBytes      atomic.Int64
	broken              atomic.Int64 // keys and values with NaN or infinity
	saturated           [2]atomic.Int64
	_                   [72]byte // keeps the counters of layers and workers on separate cache lines
}

// attnCounted is what a worker counts during a task. The totals are added once
// at the end, because shared counters would move between caches at every page.
type attnCounted struct{ considered, skipped, kBytes, vBytes int }

func (c *attnCount) add(n *attnCounted) {
	c.considered.Add(int64(n.considered))
	if n.skipped > 0 {
		c.skipped.Add(int64(n.skipped))
	}
	c.kBytes.Add(int64(n.kBytes))
	c.vBytes.Add(int64(n.vBytes))
	*n = attnCounted{}
}

// maxQueries bounds the queries of a block so that their accumulators stay in
// cache.
const maxQueries = 48

// attend adds the cache write and the attention of a layer. In a batch of
// single rows, the task that reads a page also writes it. Otherwise the writes
// are a stage before attention, because rows read what other rows write.
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
	t := &attention{
		Attention: a, p: p, q: n.In[0], k: n.In[1], v: n.In[2], out: n.Out, cache: l,
		sinkLogits: p.weights.floats(a.SinkLogits), cuts: cutsFor(a.KVHeads), group: a.Heads / a.KVHeads, counts: p.counts(a.Layer),
		attnForms: attnForms{l.k.form, l.v.form, l.k.exact.form, l.v.exact.form, l.k.pinned.form, l.v.pinned.form},
		temper:    l.temper,
	}
	if a.MLA {
		view := func(f *attn.Form) *attn.Form {
			if f == nil {
				return nil
			}
			return p.cache.form(formKey{f.Type, f.HeadDim, a.DimV, f.Options})
		}
		t.vForm, t.vExact, t.vPinned = view(l.k.form), view(l.k.exact.form), view(l.k.pinned.form)
	}
	if t.k != graph.None {
		t.order = packOrderOf(p.layout, own)
	}
	if t.bias = c.bias(&a); t.bias != nil && a.Softcap > 0 {
		return fmt.Errorf("%w: attention with both a bias and a soft cap on cpu", backend.ErrUnsupported)
	}
	t.qRope, t.kRope = c.takeRope(&t.q), c.takeRope(&t.k)
	if c.quantise[n.Out] > 0 && a.DimV%32 == 0 {
		t.quantise, c.inside[n.Out] = true, true
		t.inPlace = c.readers[n.Out].floats == 0
		c.unstored[n.Out] = t.inPlace
	}
	t.block = max(1, maxQueries/t.group)
	shape := attnShape{t.attnForms, t.group, t.block, t.cuts.room(p.sizes.Pages[l.group])}
	t.attnMemory = p.cache.memoryOf(shape, p.backend.pool.workers)
	if p.backend.observer != nil {
		c.stage(newStage(func() int { return 1 }, t.observe))
	}
	if t.k != graph.None {
		c.stage(newStage(t.writeTasks, t.write))
		if l.self != nil {
			c.stage(newStage(t.measureTasks, t.measure))
		}
	}
	if t.order.of == 0 {
		c.stage(newStage(t.tasks, t.run))
		return nil
	}
	c.stage(newStage(func() int { return t.packTasks(true) }, func(worker, task int) { t.pack(worker, task, true) }))
	attend := 0 // tasks that attend in this batch; the others pack
	c.stage(newStage(func() int {
		attend = t.tasks()
		return attend + t.packTasks(false)
	}, func(worker, task int) {
		if task < attend {
			t.run(worker, task)
		} else {
			t.pack(worker, task-attend, false)
		}
	}))
	return nil
}

// observe passes the queries and keys of a batch to the observer.
func (t *attention) observe(int, int) {
	for row := range t.p.b.Tokens {
		var k []float32
		if t.k != graph.None {
			k = t.p.row(t.k, row)
		}
		t.p.backend.observer(t.Layer, int(t.p.b.Pos[row]), t.p.row(t.q, row), k)
	}
}

// job is some rows of a span for one KV head.
type job struct {
	span        int
	head        int
	first, rows int // rows in the batch
	lo, hi      int // pages that at least one row sees
	split       int // index among the split jobs, -1 if the context is not split
	chunk, end  int // parts of this task when split, from 0
	chunks      int // parts of the whole job
}

// last reports whether a job covers the last part of its context.
func (j *job) last() bool { return j.split < 0 || j.end == j.chunks }

// splits reports whether the batch has so few spans that their contexts are
// divided among the workers.
func (t *attention) splits() bool {
	return t.single() && len(t.p.b.Spans)*t.KVHeads <= t.jobs
}

// cut chooses how many pages make a task where contexts are divided, and
// returns the number of tasks. A task processes the parts that begin in its
// pages, perhaps none. Neighbouring tasks therefore share the same amount of
// work, whatever the length of the parts.
func (t *attention) cut() (tasks int) {
	size := longPages
	for _, s := range t.p.b.Spans {
		tasks += t.pieces(s, size)
	}
	if tasks < 8*len(t.workers) {
		size, tasks = shortPages, 0
		for _, s := range t.p.b.Spans {
			tasks += t.pieces(s, size)
		}
	}
	if t.piece != size { // an unchanged line stays shared between caches
		t.piece = size
	}
	return tasks
}

// pieces returns the number of pieces of a size in the contexts of a span's
// heads.
func (t *attention) pieces(s llm.Span, size int) int {
	lo, hi := t.pages(s, s.First, 1)
	return t.KVHeads * piecesOf(lo, hi, size)
}

// piecesOf returns the number of pieces of a size that a page range touches.
func piecesOf(lo, hi, size int) int { return (hi-1)/size - lo/size + 1 }

// single reports whether every span of this batch is one row.
func (t *attention) single() bool { return len(t.p.b.Spans) == len(t.p.b.Tokens) }

// pages returns the range of pages that rows first to first+n-1 of a span see.
func (t *attention) pages(s llm.Span, first, n int) (lo, hi int) {
	from, _ := t.Sees(int(t.p.b.Pos[first]), s.Len)
	_, to := t.Sees(int(t.p.b.Pos[first+n-1]), s.Len)
	return from / kv.PageCells, ceil(to, kv.PageCells)
}

// tasks returns the number of tasks of a batch. Jobs with few pages are short,
// so several make a task as long as every worker still gets about four tasks.
func (t *attention) tasks() int {
	n, pages, per := 0, 0, 1
	if t.splits() {
		n = t.cut()
	} else {
		for _, s := range t.p.b.Spans {
			n += t.KVHeads * ceil(s.Rows, t.block)
			lo, hi := t.pages(s, s.First, s.Rows)
			pages += t.KVHeads * s.Rows * (hi - lo)
		}
		per = max(1, min(n/(4*len(t.workers)), taskPages*n/max(pages, 1)))
	}
	if t.per != per { // an unchanged line stays shared between caches
		t.per = per
	}
	return ceil(n, per)
}

// taskPages is the number of pages of a task that is long enough; maxPer is the
// largest number of jobs in a task.
const (
	taskPages = 8
	maxPer    = taskPages
)

func ceil(n, by int) int { return (n + by - 1) / by }

// find returns a job, or false if no job is left. Jobs of one head are
// neighbours, so that a worker finds their cells in its second-level cache.
// Later rows see more cells, so they come first.
func (t *attention) find(task int) (job, bool) {
	if t.splits() {
		return t.findSplit(task)
	}
	for i, s := range t.p.b.Spans {
		blocks := ceil(s.Rows, t.block)
		if task < blocks*t.KVHeads {
			first := (blocks - 1 - task%blocks) * t.block
			n := min(t.block, s.Rows-first)
			lo, hi := t.pages(s, s.First+first, n)
			return job{span: i, head: task / blocks, first: s.First + first, rows: n, lo: lo, hi: hi, split: -1}, true
		}
		task -= blocks * t.KVHeads
	}
	return job{}, false
}

func (t *attention) findSplit(task int) (job, bool) {
	size := t.piece
	for i, s := range t.p.b.Spans {
		lo, hi := t.pages(s, s.First, 1)
		n := piecesOf(lo, hi, size)
		if task >= n*t.KVHeads {
			task -= n * t.KVHeads
			continue
		}
		head, at := task/n, (lo/size+task%n)*size
		first, chunk := t.cuts.chunk(lo), t.cuts.chunk(max(lo, at))
		if t.cuts.start(chunk) < at && at > lo {
			chunk++ // the part begins in an earlier piece
		}
		end := t.cuts.chunk(min(hi, at+size)-1) + 1
		return job{
			span: i, head: head, first: s.First, rows: 1, lo: lo, hi: hi,
			split: i*t.KVHeads + head, chunk: chunk - first, end: end - first, chunks: t.cuts.chunk(hi-1) + 1 - first,
		}, chunk < end
	}
	return job{}, false
}

// run executes the jobs of one task.
func (t *attention) run(worker, task int) {
	w := t.workers[worker]
	var jobs [maxPer]job
	list := jobs[:0]
	for i := task * t.per; i < (task+1)*t.per; i++ {
		if j, ok := t.find(i); ok {
			list = append(list, j)
		}
	}
	if len(list) == 0 {
		return
	}
	if t.p.shares(len(t.p.b.Tokens)) {
		for i := range list {
			t.prefetch(w, &list[i])
		}
	}
	for i := range list {
		t.job(w, &list[i])
	}
	t.counts[worker].add(&w.attnCounted)
}

// job executes one job.
func (t *attention) job(w *attnWorker, j *job) {
	write := t.k != graph.None && !t.writesFirst()
	if write {
		t.prefetchWrite(w, j)
	}
	t.prefetchFirst(j)
	t.prepare(w, j)
	if write && j.last() {
		t.writeRow(w, j.span, j.head, j.first)
	}
	if w.prefetchNext = nil; t.single() && j.last() {
		w.prefetchNext = t.firstOfNextJob(j)
	}
	if j.split >= 0 {
		t.runSplit(w, j)
	} else {
		t.runWhole(w, j)
	}
}

// prepared returns the state of a worker whose queries are ready for a job.
func (t *attention) prepared(j *job) prepared {
	return prepared{t, t.p.backend.pool.epoch.Load(), j.first, j.head}
}

// prepare makes the queries of a job ready, unless the worker already holds
// them.
func (t *attention) prepare(w *attnWorker, j *job) {
	is := t.prepared(j)
	if j.split >= 0 && w.ready == is {
		return
	}
	w.queries.N = j.rows * t.group
	for r := range j.rows {
		row := j.first + r
		q := t.qRope.heads(w.roped, t.p.row(t.q, row), j.head*t.group, t.group, t.DimK, row)
		t.p.numbers(q, t.Layer, "queries", row)
		for g := range t.group {
			t.query(w, r*t.group+g, j, q[g*t.DimK:(g+1)*t.DimK])
		}
	}
	w.ready = is
}

// runWhole processes all parts of the context, one after another.
func (t *attention) runWhole(w *attnWorker, j *job) {
	for i := range w.queries.N {
		w.total[i].reset()
	}
	for chunk := t.cuts.chunk(j.lo); chunk <= t.cuts.chunk(j.hi-1); chunk++ {
		t.runChunk(w, j, chunk, w.chunk[:w.queries.N])
		for i := range w.queries.N {
			w.total[i].merge(&w.chunk[i])
		}
	}
	for r := range j.rows {
		for g := range t.group {
			t.finish(w, &w.total[r*t.group+g], w.offset[r*t.group+g], j.first+r, j.head*t.group+g)
		}
	}
}

// query prepares query i of a job. Packed keys that are stored without their
// mean lack the query's product with it. The product is the same for every key,
// so it matters only to a softmax that is not shift-invariant, or where exact
// keys include the mean and packed keys do not.
func (t *attention) query(w *attnWorker, i int, j *job, q []float32) {
	normalised := q
	w.offset[i] = 0
	if c := t.channels(int32(t.p.b.Spans[j.span].Seq), j.head); c != nil {
		normalised = w.normalised
		if t.cache.self != nil || t.Softcap > 0 || t.sinkLogits != nil {
			w.offset[i] = kernel.Dot(q, c.Mean)
		}
		attn.Quotients(normalised, q, c.Gain)
	}
	w.queries.Set(i, normalised)
	if t.cache.self == nil {
		w.takeExact(i, w.queries)
		return
	}
	w.exact.Set(i, q)
	w.takePinned(i, w.exact)
}

// runSplit processes some parts; the worker that finishes the last part merges
// all.
func (t *attention) runSplit(w *attnWorker, j *job) {
	at := func(chunk int) []softmax { return t.partial[(j.split*t.chunks+chunk)*t.group:][:t.group] }
	epoch := t.p.backend.pool.epoch.Load()
	first, from, added := at(0), t.cuts.chunk(j.lo), 0
	for chunk := j.chunk; chunk < j.end; chunk++ {
		switch {
		case chunk == 0:
			t.runChunk(w, j, from, first)
			for g := range first {
				first[g].settle()
			}
		case w.prefix == prefix{t, epoch, j.split, chunk}:
			t.runChunk(w, j, from+chunk, w.chunk[:t.group])
			for g := range first {
				first[g].merge(&w.chunk[g])
			}
		default:
			t.runChunk(w, j, from+chunk, at(chunk))
			continue
		}
		added++
		w.prefix = prefix{t, epoch, j.split, chunk + 1}
	}
	done := t.arrived[j.split].Add(uint64(added)<<32 | uint64(j.end-j.chunk))
	if int(uint32(done)) < j.chunks {
		return
	}
	t.arrived[j.split].Store(0)
	for g := range first {
		for chunk := int(done >> 32); chunk < j.chunks; chunk++ {
			first[g].merge(&at(chunk)[g])
		}
		t.finish(w, &first[g], w.offset[g], j.first, j.head*t.group+g)
	}
}

// weigh turns the scores of a part, pages lo to lo+len(used), into weights, and
// stores the maximum and the sum of each query in parts.
func (t *attention) weigh(w *attnWorker, j *job, lo int, used []uint64, chunks []softmax) {
	b := t.p.b
	length := b.Spans[j.span].Len
	stride := w.queries.N * attn.Cells
	var visible, kept [longPages]uint64
	for r := range j.rows {
		pos := int(b.Pos[j.first+r])
		seen := t.see(visible[:len(used)], pos, lo, length)
		factor := t.factor(pos)
		for g := range t.group {
			i := r*t.group + g
			s := w.scores[i*attn.Cells:]
			if t.bias != nil {
				t.addBias(s, stride, pos, lo, len(used), j.head*t.group+g)
			}
			if t.Softcap > 0 {
				for p := range used {
					row := s[p*stride:][:attn.Cells]
					if t.cache.channels != nil {
						shift(row, w.offset[i])
					}
					kernel.Scale(row, row, t.Scale)
					kernel.Softcap(row, row, t.Softcap)
				}
			}
			chunk := &chunks[i]
			chunk.max, chunk.sum = float32(math.Inf(-1)), 0
			if seen > 0 {
				chunk.max = attn.Logits(s, stride, factor, visible[:len(used)], chunk.max)
			}
			chunk.sum = attn.Weights(s, stride, visible[:len(used)], chunk.max, t.p.sizes.SparseV, kept[:])
			w.considered += seen
			for p, k := range kept[:len(used)] {
				used[p] |= k
				if v := visible[p]; k != v {
					w.skipped += bits.OnesCount64(v &^ k)
				}
			}
		}
	}
}

// factor returns the multiplier for the scores of a row at pos, after the soft
// cap if there is one.
func (t *attention) factor(pos int) float32 {
	f := t.Scale
	if t.Softcap > 0 || t.bias != nil {
		f = 1
	}
	if !t.temper.On() {
		return f
	}
	from, to := t.Sees(pos, pos+1)
	return f * t.temper.Factor(to-from)
}

// see sets a bit for each cell of a page that a row at pos sees, in pages from
// page on of a context of length cells. It returns the number of pages.
func (t *attention) see(visible []uint64, pos, page, length int) int {
	from, to := t.Sees(pos, length)
	first := page * kv.PageCells
	from, to = max(0, from-first), max(0, to-first)
	end := len(visible) * kv.PageCells
	n := max(0, min(to, end)-min(from, end))
	for i := range visible {
		lo, hi := min(from, kv.PageCells), min(to, kv.PageCells)
		switch {
		case hi-lo == kv.PageCells:
			visible[i] = ^uint64(0)
		case lo < hi:
			visible[i] = ^uint64(0) >> (64 - (hi - lo)) << lo
		default:
			visible[i] = 0
		}
		from, to = from-lo, to-hi
	}
	return n
}

// shift adds c to x.
func shift(x []float32, c float32) {
	for i := range x {
		x[i] += c
	}
}

// finish writes the output of one query head of one row. offset is what its
// scores lack, where there is no soft cap.
func (t *attention) finish(w *attnWorker, s *softmax, offset float32, row, head int) {
	if t.sinkLogits != nil {
		logit := t.sinkLogits[head]
		if t.cache.channels != nil && t.Softcap == 0 {
			f := t.factor(int(t.p.b.Pos[row]))
			if t.bias != nil { // the factor leaves the scale out
				f *= t.Scale
			}
			logit -= f * offset
		}
		s.sink(logit)
	}
	if s.sum > 0 {
		kernel.Scale(s.acc, s.acc, 1/s.sum)
	}
	out := w.out[:t.DimV]
	if !t.inPlace {
		out = t.p.row(t.out, row)[head*t.DimV : (head+1)*t.DimV]
	}
	t.vForm.Finish(out, s.acc)
	if sum := kernel.Sum(out); sum-sum != 0 {
		makeFinite(out)
	}
	if t.quantise {
		t.p.quantisePart(t.out, row, head*t.DimV, out)
	}
}

// makeFinite replaces infinities by the largest value and NaN by 0: values near
// the end of the float32 range can add up to them.
func makeFinite(x []float32) {
	for i, v := range x {
		if v != v {
			v = 0
		}
		x[i] = max(-math.MaxFloat32, min(math.MaxFloat32, v))
	}
}

var _ backend.Program = (*program)(nil)
