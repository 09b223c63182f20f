package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/kv"
)

// takeExact prepares query i for exact keys and sinks as from has just prepared
// it.
func (w *attnWorker) takeExact(i int, from *attn.Queries) {
	if w.exact != nil {
		w.exact.Take(i, from)
	}
	w.takeSinks(i, from)
}

// takeSinks prepares query i for sinks alone.
func (w *attnWorker) takeSinks(i int, from *attn.Queries) {
	if w.sinks != nil {
		w.sinks.Take(i, from)
	}
}

// pages is the pages of a job's span, and how its rows read them.
type pages struct {
	*job
	t             *attention
	packed, exact []int32 // tables; exact is empty without an exact window
	seq           int32
	pos           int // of the job's first row
	length        int // of the span
}

func (t *attention) pagesOf(j *job) pages {
	b := t.p.b
	span := &b.Spans[j.span]
	p := pages{
		job: j, t: t, packed: b.Tables[t.cache.group][j.span],
		seq: int32(span.Seq), pos: int(b.Pos[j.first]), length: span.Len,
	}
	if t.kExact != nil || t.vExact != nil {
		p.exact = b.Exact[t.cache.group][j.span]
	}
	return p
}

// early is the number of rows of the job that read page pg in exact form: the
// first ones, since a later row sees fewer exact pages.
func (p *pages) early(pg int) int {
	if p.exact == nil || p.exact[pg] < 0 {
		return 0
	}
	leaves := (pg+1)*kv.PageCells + p.t.cache.window.Newest - 1 // the first position that reads it packed
	return max(0, min(p.rows, leaves-p.pos))
}

// cells is the number of cells of a page.
func (p *pages) cells(pg int) int { return min(kv.PageCells, p.length-pg*kv.PageCells) }

// read is K or V of a job, in all its forms.
type read struct {
	*side
	packed, exact, sinks *attn.Form
}

func (t *attention) keys() read { return read{&t.cache.k, t.kForm, t.kExact, t.kSinks} }

func (t *attention) values() read {
	s := &t.cache.v
	if t.MLA {
		s = &t.cache.k
	}
	return read{s, t.vForm, t.vExact, t.vSinks}
}

// early is the number of rows that read page pg in exact form on this side.
func (r *read) early(p *pages, pg int) int {
	if r.exact == nil {
		return 0
	}
	return p.early(pg)
}

// at is the page that the last row of a job reads.
func (r *read) at(p *pages, pg int) []byte {
	if r.early(p, pg) == p.rows {
		return r.side.exact.head(p.exact[pg], p.head)
	}
	return r.head(p.packed[pg], p.head)
}

// runPart computes the softmax of a job over one part of the context: all its
// scores first, so that the weights are relative to the largest of the part.
func (t *attention) runPart(w *attnWorker, j *job, part int) {
	lo, hi := max(j.lo, part*partPages), min(j.hi, (part+1)*partPages)
	stride := w.queries.N * attn.Cells
	p, k, v := t.pagesOf(j), t.keys(), t.values()
	for pg := lo; pg < hi; pg++ {
		var next []byte
		if n := pg + t.kForm.Ahead(); n < hi {
			next = k.at(&p, n)
		} else if n += lo - hi; n < hi {
			next = v.at(&p, n)
		}
		t.score(w, &p, &k, pg, w.scores[(pg-lo)*stride:], next)
	}
	var used [partPages]uint64
	t.weigh(w, j, lo, used[:hi-lo])
	clear(w.acc[:w.queries.N*t.vForm.Padded])
	var list [partPages]int // pages whose values have weights
	n := 0
	for i, u := range used {
		if u != 0 {
			list[n] = lo + i
			n++
		}
	}
	for i, pg := range list[:n] {
		var next []byte
		if m := i + t.vForm.Ahead(); m < n {
			next = v.at(&p, list[m])
		} else if m += hi - n; m < j.hi {
			next = k.at(&p, m)
		}
		t.accumulate(w, &p, &v, pg, w.scores[(pg-lo)*stride:], next, used[pg-lo])
	}
}

// score writes the scores of a page: of its packed form where a row reads
// that, over them of its exact form for the rows that read that, and over
// them of the sinks.
func (t *attention) score(w *attnWorker, p *pages, k *read, pg int, dst []float32, next []byte) {
	cells, exact := p.cells(pg), k.early(p, pg)
	if exact < p.rows {
		k.packed.Scores(dst, w.queries, k.head(p.packed[pg], p.head), next, cells, w.scratch)
		t.counts.kBytes.Add(int64(k.packed.ReadBytes()))
		if t.cache.own != nil {
			for i := range w.queries.N {
				shift(dst[i*attn.Cells:][:attn.Cells], w.offset[i])
			}
		}
	}
	if exact > 0 {
		w.exact.N = exact * t.group
		k.exact.Scores(dst, w.exact, k.side.exact.head(p.exact[pg], p.head), next, cells, w.scratch)
		t.counts.kBytes.Add(int64(k.exact.ReadBytes()))
	}
	if pg > 0 || k.sinks == nil {
		return
	}
	w.sinks.N = w.queries.N
	n := min(cells, k.sinks.Cells())
	k.sinks.Scores(w.sinkScores, w.sinks, k.side.sinks.head(p.seq, p.head), nil, n, w.scratch)
	for i := 0; i < w.queries.N*attn.Cells; i += attn.Cells {
		copy(dst[i:i+n], w.sinkScores[i:])
	}
	t.counts.kBytes.Add(int64(k.sinks.ReadBytes()))
}

// accumulate adds the weighted values of a page, each row those of the form
// that it reads. Weights of sinks are taken out before the rest.
func (t *attention) accumulate(w *attnWorker, p *pages, v *read, pg int, weights []float32, next []byte, used uint64) {
	var read int64
	if pg == 0 && v.sinks != nil {
		n := v.sinks.Cells()
		if sinks := used & (^uint64(0) >> (64 - n)); sinks != 0 {
			v.sinks.Accumulate(w.acc, weights, w.queries.N, v.side.sinks.head(p.seq, p.head), nil, sinks, w.scratch)
			used &^= sinks
			for i := 0; i < w.queries.N*attn.Cells; i += attn.Cells {
				clear(weights[i : i+n])
			}
			read += int64(v.sinks.ReadBytes())
		}
	}
	exact := v.early(p, pg)
	n := exact * t.group
	if n > 0 {
		v.exact.Accumulate(w.acc, weights, n, v.side.exact.head(p.exact[pg], p.head), next, used, w.scratch)
		read += int64(v.exact.ReadBytes())
	}
	if exact < p.rows {
		v.packed.Accumulate(w.acc[n*v.packed.Padded:], weights[n*attn.Cells:], w.queries.N-n, v.head(p.packed[pg], p.head), next, used, w.scratch)
		read += int64(v.packed.ReadBytes())
	}
	if !t.MLA {
		t.counts.vBytes.Add(read)
	}
}
