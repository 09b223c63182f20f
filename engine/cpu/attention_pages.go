package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/kv"
)

// jobPages describes the pages of a job's span, and how the job's rows read them.
type jobPages struct {
	*job
	t             *attention
	packed, exact []int32 // page tables; exact is empty without an exact window
	seq           int32
	pos           int // position of the job's first row
	length        int // length of the span
}

// find looks up the pages of the job.
func (p *jobPages) find() {
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
// These are the first rows of the job, because later rows see fewer exact pages.
func (p *jobPages) exactRows(pg int) int {
	if p.exact == nil || p.exact[pg] < 0 {
		return 0
	}
	return max(0, min(p.rows, p.t.cache.window.Leaves(pg)-p.pos))
}

// cells returns the number of cells of a page.
func (p *jobPages) cells(pg int) int { return min(kv.PageCells, p.length-pg*kv.PageCells) }

// read is K or V of a job, in all forms.
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
func (r *read) exactRows(p *jobPages, pg int) int {
	if r.exact == nil {
		return 0
	}
	return p.exactRows(pg)
}

// untilExact returns the number of leading pages, of n, that no row reads in
// exact form.
func (r *read) untilExact(p *jobPages, n int, page func(i int) int) int {
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

// at returns the page in the form that the last row of a job reads.
func (r *read) at(p *jobPages, pg int) []byte {
	if r.exactRows(p, pg) == p.rows {
		return r.side.exact.read(p.exact[pg], p.head)
	}
	return r.side.read(p.packed[pg], p.head)
}

// find fills in visits for the pages from pg on.
func (r *read) find(visits []attn.Visit, p *jobPages, pg int) {
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
