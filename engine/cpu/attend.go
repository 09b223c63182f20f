package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// takeExact prepares query i for exact and pinned keys, from the packed
// preparation in from.
func (w *attnWorker) takeExact(i int, from *attn.Queries) {
	if w.exact != nil {
		w.exact.Take(i, from)
	}
	w.takePinned(i, from)
}

// takePinned prepares query i for pinned keys only.
func (w *attnWorker) takePinned(i int, from *attn.Queries) {
	if w.pinned != nil {
		w.pinned.Take(i, from)
	}
}

// alone returns a list of one visit in the worker's memory.
func (w *attnWorker) alone(v *attn.Visit) []attn.Visit {
	w.single[0] = *v
	return w.single[:]
}

// runChunk computes the softmax of a job over one chunk of the context. All
// scores come first, so that weights are relative to the maximum of the chunk.
// to has one softmax per query. It is overwritten, and its sums are contiguous.
func (t *attention) runChunk(w *attnWorker, j *job, chunk int, to []softmax) {
	lo, hi := max(j.lo, t.cuts.start(chunk)), min(j.hi, t.cuts.start(chunk+1))
	stride := w.queries.N * attn.Cells
	p := jobPages{job: j, t: t}
	p.find()
	k, v := t.keys(), t.values()
	n := hi - lo
	keys, values := w.keys[:n], w.values[:n]
	k.find(keys, &p, lo)
	v.find(values, &p, lo)
	ahead := min(n, t.kForm.Ahead())
	for i := range keys {
		// Assign field by field. A copy of the whole struct would wait for the
		// stores before it.
		at := &keys[i]
		at.At, at.Cells = i*stride, kv.PageCells
		if i+ahead < n {
			at.Ahead = attn.Distance(at.Page, keys[i+ahead].Page)
		} else {
			prefetchAfter(at, values[i+ahead-n].Page)
		}
	}
	keys[n-1].Cells = p.cells(hi - 1)
	if n == 1 && hi == j.hi {
		w.scratch.Then = w.prefetchNext
	}
	t.score(w, &p, &k, lo, keys)
	w.scratch.Then = nil
	var used [longPages]uint64
	t.weigh(w, j, lo, used[:n], to)
	w.sum = to[0].acc[:len(to)*t.vForm.Padded]
	clear(w.sum)
	ahead = t.vForm.Ahead()
	n = 0
	for i := range values {
		if used[i] == 0 {
			continue
		}
		at := &values[n]
		if n < i { // pages without weights are left out
			at.Page, at.Rest = values[i].Page, values[i].Rest
		}
		at.Ahead, at.At, at.Used = 0, i*stride, used[i]
		if n >= ahead {
			last := &values[n-ahead]
			last.Ahead = attn.Distance(last.Page, at.Page)
		}
		n++
	}
	values = values[:n]
	ahead = min(n, ahead)
	for i := range ahead {
		at := &values[n-ahead+i]
		if hi+i == j.hi {
			prefetchAfter(at, w.prefetchNext)
			break
		}
		prefetchAfter(at, k.at(&p, hi+i))
	}
	t.accumulate(w, &p, &v, lo, values)
}

// score writes the scores of pages from lo on. It writes the packed form first,
// for rows that read it. The exact form overwrites the scores of rows that read
// it, and pinned rows overwrite both.
func (t *attention) score(w *attnWorker, p *jobPages, k *read, lo int, visits []attn.Visit) {
	for i := 0; i < len(visits); {
		n := k.untilExact(p, len(visits)-i, func(n int) int { return lo + i + n })
		if n > 0 {
			t.scorePacked(w, k, visits[i:i+n])
			i += n
			continue
		}
		pg, one := lo+i, w.alone(&visits[i])
		exact := k.exactRows(p, pg)
		if exact < p.rows {
			one[0].Page = k.side.read(p.packed[pg], p.head)
			t.scorePacked(w, k, one)
		}
		one[0].Page = k.side.exact.read(p.exact[pg], p.head)
		w.exact.N = exact * t.group
		k.exact.Scores(w.scores, w.exact, one, w.scratch)
		w.kBytes += k.exact.ReadBytes()
		i++
	}
	if lo > 0 || k.pinned == nil {
		return
	}
	w.pinned.N = w.queries.N
	n := min(visits[0].Cells, k.pinned.Cells())
	k.pinned.Scores(w.pinnedScores, w.pinned, w.alone(&attn.Visit{Page: k.side.pinned.read(p.seq, p.head), Cells: n}), w.scratch)
	for i := 0; i < w.queries.N*attn.Cells; i += attn.Cells {
		copy(w.scores[i:i+n], w.pinnedScores[i:])
	}
	w.kBytes += k.pinned.ReadBytes()
}

// scorePacked writes the scores of packed pages. If packed keys lack their mean
// and exact keys include it, it adds the product of query and mean.
func (t *attention) scorePacked(w *attnWorker, k *read, visits []attn.Visit) {
	k.packed.Scores(w.scores, w.queries, visits, w.scratch)
	w.kBytes += len(visits) * k.packed.ReadBytes()
	if t.cache.self == nil {
		return
	}
	for i := range visits {
		for q := range w.queries.N {
			shift(w.scores[visits[i].At+q*attn.Cells:][:attn.Cells], w.offset[q])
		}
	}
}

// accumulate adds the weighted values of pages, each row in the form that it
// reads. The chunk begins at page lo. The weights of pinned rows are used first
// and then set to 0.
func (t *attention) accumulate(w *attnWorker, p *jobPages, v *read, lo int, visits []attn.Visit) {
	before := w.vBytes
	if lo == 0 && v.pinned != nil && len(visits) > 0 && visits[0].At == 0 {
		t.accumulatePinned(w, p, v, &visits[0])
	}
	page := func(i int) int { return lo + visits[i].At/(w.queries.N*attn.Cells) }
	for i := 0; i < len(visits); {
		n := v.untilExact(p, len(visits)-i, func(n int) int { return page(i + n) })
		if n > 0 {
			v.packed.Accumulate(w.sum, w.scores, w.queries.N, visits[i:i+n], w.scratch)
			w.vBytes += n * v.packed.ReadBytes()
			i += n
			continue
		}
		pg, one := page(i), w.alone(&visits[i])
		exact := v.exactRows(p, pg)
		rows := exact * t.group
		one[0].Page = v.side.exact.read(p.exact[pg], p.head)
		v.exact.Accumulate(w.sum, w.scores, rows, one, w.scratch)
		w.vBytes += v.exact.ReadBytes()
		if exact < p.rows {
			one[0].Page, one[0].At = v.side.read(p.packed[pg], p.head), one[0].At+rows*attn.Cells
			v.packed.Accumulate(w.sum[rows*v.packed.Padded:], w.scores, w.queries.N-rows, one, w.scratch)
			w.vBytes += v.packed.ReadBytes()
		}
		i++
	}
	if t.MLA { // K and V share these bytes, which were read once
		w.vBytes = before
	}
}

// accumulatePinned adds the values of the pinned rows and sets their weights in the first page to
// 0.
func (t *attention) accumulatePinned(w *attnWorker, p *jobPages, v *read, first *attn.Visit) {
	n := v.pinned.Cells()
	pinned := first.Used & (^uint64(0) >> (64 - n))
	if pinned == 0 {
		return
	}
	v.pinned.Accumulate(w.sum, w.scores, w.queries.N, w.alone(&attn.Visit{Page: v.side.pinned.read(p.seq, p.head), Used: pinned}), w.scratch)
	first.Used &^= pinned
	for i := 0; i < w.queries.N*attn.Cells; i += attn.Cells {
		clear(w.scores[i : i+n])
	}
	w.vBytes += v.pinned.ReadBytes()
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

// prepare prepares the queries of a job, unless the worker already holds them.
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

// runWhole processes all chunks of the context, one after another.
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
// mean lack the product of query and mean. This product is the same for every
// key. It matters only if the softmax is not shift-invariant, or if exact keys
// include the mean and packed keys do not.
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
