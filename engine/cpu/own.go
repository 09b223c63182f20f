package cpu

import (
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// A line that another worker wrote comes from its processor's cache, and one that
// it has read has to be taken from there before it is written: 100 ns, or 370
// where the two processors are on different complexes. Tasks of few rows ask for
// such lines at their start, so that those times pass together and beside what
// they compute.

// fewRows is how many rows are few.
const fewRows = 16

// shares reports whether the lines of so many rows come from other workers, and
// are not too many to ask for.
func (p *program) shares(rows int) bool {
	return p.backend.pool.workers > 1 && rows <= fewRows
}

// own owns the quantised form of n values of a row, from one on.
func (p *program) own(v graph.Value, row, from, n int) {
	a := p.acts[v]
	cols := a.Cols()
	row = row*(p.plan.Values[v].Width/cols) + from/cols
	for from %= cols; n > 0; from, row = 0, row+1 {
		m := min(n, cols-from)
		a.Own(row, from, m)
		n -= m
	}
}

// ask asks for the queries of a job unless the worker has them ready, and, where it
// has the last part, for the keys and values that it writes; it owns the output then.
func (t *attention) ask(w *attnWorker, j *job) {
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
			t.p.own(t.out, row, j.head*o, o)
		}
	}
}

// askWrite asks for what the job's key and value will change of their page: before
// the part that precedes, if the same worker has both.
func (t *attention) askWrite(w *attnWorker, j *job) {
	switch {
	case j.split < 0, j.end == j.parts-1:
	case j.last() && w.ready != t.prepared(j):
	default:
		return
	}
	to := t.rowWrite(j.span, j.head, j.first)
	t.cache.k.own(&to)
	if t.v != graph.None {
		t.cache.v.own(&to)
	}
}

// askFirst asks for the first pages of K, which no page before asks for, where there
// is but one row. The last page of all is askWrite's.
func (t *attention) askFirst(j *job) {
	if len(t.p.b.Tokens) > 1 || j.part > 0 {
		return
	}
	p := pages{job: j, t: t}
	p.find()
	k := t.keys()
	for i := j.lo; i < min(j.lo+t.kForm.Ahead(), j.hi-1); i++ {
		kernel.Prefetch(k.at(&p, i))
	}
}
