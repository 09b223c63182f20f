package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/cpu/kernel"
	"godwit/engine/kv"
)

// takeExact prepares query i for exact keys and sinks from the packed
// preparation in from.
func (w *attnWorker) takeExact(i int, from *attn.Queries) {
	if w.exact != nil {
		w.exact.Take(i, from)
	}
	w.takePinned(i, from)
}

// takePinned prepares query i for sinks alone.
func (w *attnWorker) takePinned(i int, from *attn.Queries) {
	if w.pinned != nil {
		w.pinned.Take(i, from)
	}
}

// prefetchAfter sets next as the memory that v prefetches while its page is read.
// Prefetching goes line by line, so bytes beyond the page's length are
// prefetched at once.
func prefetchAfter(v *attn.Visit, next []byte) {
	v.Ahead = attn.Distance(v.Page, next)
	if len(next) > len(v.Page) {
		kernel.Prefetch(next[len(v.Page):])
	}
}

// firstOfNextJob returns the first page that the job after j reads, where j has one
// row; nil if there is none.
func (t *attention) firstOfNextJob(j *job) []byte {
	b := t.p.b
	next := job{span: j.span, head: j.head + 1, rows: 1}
	if next.head == t.KVHeads {
		next.span, next.head = j.span+1, 0
	}
	if next.span == len(b.Spans) {
		return nil
	}
	next.first = b.Spans[next.span].First
	lo, _ := t.pages(b.Spans[next.span], next.first, 1)
	p := pages{job: &next, t: t}
	p.find()
	k := t.keys()
	return k.at(&p, lo)
}

// alone returns a list of one visit in the worker's memory.
func (w *attnWorker) alone(v *attn.Visit) []attn.Visit {
	w.single[0] = *v
	return w.single[:]
}

// pages are the pages of a job's span and how its rows read them.
type pages struct {
	*job
	t             *attention
	packed, exact []int32 // page tables; exact is empty without an exact window
	seq           int32
	pos           int // position of the job's first row
	length        int // length of the span
}

// find looks up the pages of the job.
func (p *pages) find() {
	t, j := p.t, p.job
	b := t.p.b
	span := &b.Spans[j.span]
	p.packed = b.Tables[t.cache.group][j.span]
	p.seq, p.pos, p.length = int32(span.Seq), int(b.Pos[j.first]), span.Len
	if t.kExact != nil || t.vExact != nil {
		p.exact = b.Exact[t.cache.group][j.span]
	}
}

// exactRows returns the number of rows of the job that read page pg in exact form.
// These are the first rows, since a later row sees fewer exact pages.
func (p *pages) exactRows(pg int) int {
	if p.exact == nil || p.exact[pg] < 0 {
		return 0
	}
	leaves := (pg+1)*kv.PageCells + p.t.cache.window.Newest - 1 // first position that reads the page packed
	return max(0, min(p.rows, leaves-p.pos))
}

// cells returns the number of cells of a page.
func (p *pages) cells(pg int) int { return min(kv.PageCells, p.length-pg*kv.PageCells) }

// read is K or V of a job, in all its forms.
type read struct {
	*side
	packed, exact, pinned *attn.Form
}

func (t *attention) keys() read { return read{&t.cache.k, t.kForm, t.kExact, t.kPinned} }

func (t *attention) values() read {
	s := &t.cache.v
	if t.MLA {
		s = &t.cache.k
	}
	return read{s, t.vForm, t.vExact, t.vPinned}
}

// exactRows returns the number of rows that read page pg in exact form on this
// side.
func (r *read) exactRows(p *pages, pg int) int {
	if r.exact == nil {
		return 0
	}
	return p.exactRows(pg)
}

// untilExact returns how many of n pages, from the first on, no row reads in
// exact form.
func (r *read) untilExact(p *pages, n int, page func(i int) int) int {
	if r.exact == nil || len(p.exact) == 0 {
		return n
	}
	for i := range n {
		if p.exactRows(page(i)) > 0 {
			return i
		}
	}
	return n
}

// at returns the page that the last row of a job reads.
func (r *read) at(p *pages, pg int) []byte {
	if r.exactRows(p, pg) == p.rows {
		return r.side.exact.read(p.exact[pg], p.head)
	}
	return r.side.read(p.packed[pg], p.head)
}

// find fills in visits for the pages from pg on.
func (r *read) find(visits []attn.Visit, p *pages, pg int) {
	n := r.form.ReadBytes()
	list := p.packed[pg:][:len(visits)]
	for i := 0; i < len(list); {
		run, _ := r.run(list[i], p.head)
		for page := list[i]; i < len(list) && list[i] == page && len(run) > 0; page++ {
			visits[i].Page, run = run[:n:n], run[n:]
			i++
		}
	}
	for i := 0; i < len(list) && r.asymmetric != nil; i++ {
		switch {
		case r.isAsymmetric(list[i], p.head):
			visits[i].Rest = r.head(list[i], p.head).Rest
		case visits[i].Rest != nil:
			visits[i].Rest = nil
		}
	}
	if r.exact == nil || len(p.exact) == 0 {
		return
	}
	for i := range visits {
		if p.exactRows(pg+i) == p.rows {
			visits[i].Page = r.side.exact.read(p.exact[pg+i], p.head)
		}
	}
}

// runChunk computes the softmax of a job over one part of the context. All
// scores come first, so that weights are relative to the maximum of the part.
// to has one softmax per query, overwritten here, with contiguous sums.
func (t *attention) runChunk(w *attnWorker, j *job, chunk int, to []softmax) {
	lo, hi := max(j.lo, t.cuts.start(chunk)), min(j.hi, t.cuts.start(chunk+1))
	stride := w.queries.N * attn.Cells
	p := pages{job: j, t: t}
	p.find()
	k, v := t.keys(), t.values()
	n := hi - lo
	keys, values := w.keys[:n], w.values[:n]
	k.find(keys, &p, lo)
	v.find(values, &p, lo)
	ahead := min(n, t.kForm.Ahead())
	for i := range keys {
		// Assign field by field: a copy of the whole struct would wait for the
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
		if n < i { // pages without weights lie between
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

// score writes the scores of pages from lo on: the packed form where a row
// reads it, then the exact form over them for rows that read that, then the
// sinks over both.
func (t *attention) score(w *attnWorker, p *pages, k *read, lo int, visits []attn.Visit) {
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

// scorePacked writes the scores of packed pages. It adds the product with the
// mean where packed keys lack it and exact keys include it.
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

// accumulate adds the weighted values of pages, the first of the part being lo,
// each row in the form that it reads. Sink weights are taken out before the
// rest.
func (t *attention) accumulate(w *attnWorker, p *pages, v *read, lo int, visits []attn.Visit) {
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

// accumulatePinned adds the values of the sinks and removes their weights from
// the first page.
func (t *attention) accumulatePinned(w *attnWorker, p *pages, v *read, first *attn.Visit) {
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
