package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// A line that another worker wrote must come from that worker's cache. A line
// that another worker read must be invalidated there before it is written.
// Either takes 100 ns, or 370 ns between processors on different complexes.
// Tasks with few rows prefetch such lines when they start, so that these
// latencies overlap with each other and with the computation.

// fewRows is the largest number of rows for which this prefetching is worthwhile.
const fewRows = 16

// shares reports whether the lines of that many rows come from other workers
// and are few enough to prefetch.
func (p *program) shares(rows int) bool {
	return p.backend.pool.workers > 1 && rows <= fewRows
}

// prefetchOutput prefetches for writing the quantised form of n values of a row,
// starting at index from.
func (p *program) prefetchOutput(v graph.Value, row, from, n int) {
	a := p.acts[v]
	cols := a.Cols()
	row = row*(p.plan.Values[v].Width/cols) + from/cols
	for from %= cols; n > 0; from, row = 0, row+1 {
		m := min(n, cols-from)
		a.PrefetchForWrite(row, from, m)
		n -= m
	}
}

// prefetch prefetches the queries of a job, unless the worker holds them ready.
// For the job with the last chunk it also prefetches the keys and values that
// it writes. It prefetches the job's output for writing.
func (t *attention) prefetch(w *attnWorker, j *job) {
	q, o := t.group*t.DimK, t.group*t.DimV
	ready := j.split >= 0 && w.ready == t.prepared(j)
	for row := j.first; row < j.first+j.rows; row++ {
		if !ready {
			kernel.PrefetchRow(t.p.row(t.q, row)[j.head*q:][:q])
		}
		if !j.last() {
			continue
		}
		if t.k != graph.None {
			kernel.PrefetchRow(t.p.row(t.k, row)[j.head*t.DimK:][:t.DimK])
		}
		if t.v != graph.None {
			kernel.PrefetchRow(t.p.row(t.v, row)[j.head*t.DimV:][:t.DimV])
		}
		if t.quantise {
			t.p.prefetchOutput(t.out, row, j.head*o, o)
		}
	}
}

// prefetchWrite prefetches the lines of a page that a job's key and value
// change. If the same worker also has the preceding chunk, it does so before
// that chunk.
func (t *attention) prefetchWrite(w *attnWorker, j *job) {
	switch {
	case j.split < 0, j.end == j.chunks-1:
	case j.last() && w.ready != t.prepared(j):
	default:
		return
	}
	to := t.rowWrite(j.span, j.head, j.first)
	t.cache.k.prefetchForWrite(&to)
	if t.v != graph.None {
		t.cache.v.prefetchForWrite(&to)
	}
}

// prefetchFirst prefetches the first pages of K if there is only one row,
// because no earlier page prefetches them. prefetchWrite handles the last page.
func (t *attention) prefetchFirst(j *job) {
	if len(t.p.b.Tokens) > 1 || j.chunk > 0 {
		return
	}
	p := jobPages{job: j, t: t}
	p.find()
	k := t.keys()
	for i := j.lo; i < min(j.lo+t.kForm.Ahead(), j.hi-1); i++ {
		kernel.Prefetch(k.at(&p, i))
	}
}

// prefetchAfter makes v prefetch next while its page is read. Prefetching goes
// line by line, so the bytes of next beyond the page's length are prefetched at
// once.
func prefetchAfter(v *attn.Visit, next []byte) {
	v.Ahead = attn.Distance(v.Page, next)
	if len(next) > len(v.Page) {
		kernel.Prefetch(next[len(v.Page):])
	}
}

// firstOfNextJob returns the first page that the job after j reads, if j has
// one row. It is nil after the last job.
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
	p := jobPages{job: &next, t: t}
	p.find()
	k := t.keys()
	return k.at(&p, lo)
}
