package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// writesFirst reports whether a stage before attention writes the rows of this
// batch. It is needed if rows read what other rows write, or if they fill a
// page that is packed.
func (t *attention) writesFirst() bool {
	if !t.single() {
		return true
	}
	for i := range t.packs() {
		if t.packs()[i].Now {
			return true
		}
	}
	return false
}

// writeTasks returns the number of pages that this batch writes, times KV
// heads. One task writes a page, because its cells share bytes.
func (t *attention) writeTasks() int {
	if !t.writesFirst() {
		return 0
	}
	n := 0
	for _, s := range t.p.b.Spans {
		n += t.written(s.First, s.Rows)
	}
	return n * t.KVHeads
}

// written returns the number of pages that rows of a span touch.
func (t *attention) written(first, rows int) int {
	pos := t.p.b.Pos
	return int(pos[first+rows-1])/kv.PageCells - int(pos[first])/kv.PageCells + 1
}

// write stores the rows of one page and KV head.
func (t *attention) write(worker, task int) {
	page, head := task/t.KVHeads, task%t.KVHeads
	for i, s := range t.p.b.Spans {
		n := t.written(s.First, s.Rows)
		if page >= n {
			page -= n
			continue
		}
		page += int(t.p.b.Pos[s.First]) / kv.PageCells
		for row := s.First; row < s.First+s.Rows; row++ {
			if int(t.p.b.Pos[row])/kv.PageCells == page {
				t.writeRow(t.workers[worker], i, head, row)
			}
		}
		return
	}
	panic("cpu: cache write task out of range")
}

// rowWrite returns the destination of the key and value of one row and KV head.
func (t *attention) rowWrite(span, head, row int) rowWrite {
	b := t.p.b
	w := rowWrite{head: head, at: kv.At{Pos: int(b.Pos[row]), RopeBase: t.RopeBase}, seq: int32(b.Spans[span].Seq), exact: -1}
	w.page = b.Tables[t.cache.group][span][w.at.Pos/kv.PageCells]
	if t.cache.window.Newest > 0 {
		w.exact = b.Exact[t.cache.group][span][w.at.Pos/kv.PageCells]
	}
	return w
}

// writeRow stores the key and value of one row and KV head.
func (t *attention) writeRow(worker *attnWorker, span, head, row int) {
	p := t.p
	w := t.rowWrite(span, head, row)
	k := t.kRope.heads(worker.roped, p.row(t.k, row), head, 1, t.DimK, row)
	t.inspect(k, "keys", row)
	normalised := k
	if c := t.channels(w.seq, head); c != nil {
		normalised = worker.normalised
		c.Normalise(normalised, k)
	}
	if t.cache.self == nil {
		k = normalised
	}
	t.saturated(kv.K, t.cache.k.write(&w, k, normalised, worker.scratch))
	if t.v != graph.None {
		v := p.row(t.v, row)[head*t.DimV : (head+1)*t.DimV]
		t.inspect(v, "values", row)
		t.saturated(kv.V, t.cache.v.write(&w, v, v, worker.scratch))
	}
}

// saturated counts n blocks with an infinite or NaN scale, on side s.
func (t *attention) saturated(s kv.Side, n int) {
	if n > 0 {
		t.counts[0].saturated[s].Add(int64(n))
	}
}

// inspect counts x if it contains NaN or infinity. Packed forms cannot
// represent these values, so they could not be detected later.
func (t *attention) inspect(x []float32, what string, row int) {
	if !t.p.numbers(x, t.Layer, what, row) {
		t.counts[0].broken.Add(1)
	}
}

// rowWrite is the destination of one row and KV head. exact is -1 if the page
// has no exact form.
type rowWrite struct {
	page, exact, seq int32
	head             int
	at               kv.At
}

// write stores x in every tier that has a cell for it, and packed in the packed
// tier. It returns the number of blocks with a saturated scale. Types that are
// packed by page skip the packed tier if there is an exact cell.
func (s *side) write(w *rowWrite, x, packed []float32, scratch *attn.Scratch) (saturated int) {
	cell := w.at.Pos % kv.PageCells
	exact := s.exact.form != nil && w.exact >= 0
	if exact {
		saturated += s.exact.write(w.exact, w.head, cell, x, w.at, scratch)
	}
	if !exact || !s.packedByPage {
		saturated += s.store.write(w.page, w.head, cell, packed, w.at, scratch)
	}
	if s.pinned.form != nil && w.at.Pos < s.pinned.form.Cells() {
		saturated += s.pinned.write(w.seq, w.head, w.at.Pos, x, w.at, scratch)
	}
	return saturated
}

// prefetchForWrite prefetches for writing the lines that write changes, except for the pinned tier.
func (s *side) prefetchForWrite(w *rowWrite) {
	cell := w.at.Pos % kv.PageCells
	exact := s.exact.form != nil && w.exact >= 0
	if exact {
		s.exact.form.PrefetchForWrite(s.exact.head(w.exact, w.head), cell)
	}
	if !exact || !s.packedByPage {
		s.form.PrefetchForWrite(s.head(w.page, w.head), cell)
	}
}
