package cpu

import (
	"godwit/engine/cpu/attn"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// early reports whether the rows of this batch are written in a stage before
// attention: where rows read what others write, or a page is packed that they
// fill.
func (t *attention) early() bool {
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

// writeTasks is the number of pages that this batch writes, times KV heads. A
// page is written by one task: its cells share bytes.
func (t *attention) writeTasks() int {
	if !t.early() {
		return 0
	}
	n := 0
	for _, s := range t.p.b.Spans {
		n += t.written(s.First, s.Rows)
	}
	return n * t.KVHeads
}

// written is the number of pages that rows of a span lie in.
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

// writeRow stores the key and value of one row and KV head.
func (t *attention) writeRow(worker *attnWorker, span, head, row int) {
	p := t.p
	w := rowWrite{head: head, at: kv.At{Pos: int(p.b.Pos[row]), RopeBase: t.RopeBase}, seq: int32(p.b.Spans[span].Seq), exact: -1}
	w.page = p.b.Tables[t.cache.group][span][w.at.Pos/kv.PageCells]
	if t.cache.window.Newest > 0 {
		w.exact = p.b.Exact[t.cache.group][span][w.at.Pos/kv.PageCells]
	}
	k := p.row(t.k, row)[head*t.DimK : (head+1)*t.DimK]
	t.inspect(k)
	if t.cache.channels != nil {
		t.cache.channels[head].Level(worker.levelled, k)
		k = worker.levelled
	}
	t.saturated(kv.K, t.cache.k.write(&w, k, worker.scratch))
	if t.v != graph.None {
		v := p.row(t.v, row)[head*t.DimV : (head+1)*t.DimV]
		t.inspect(v)
		t.saturated(kv.V, t.cache.v.write(&w, v, worker.scratch))
	}
}

// saturated counts n blocks of a side whose scale was infinite or NaN.
func (t *attention) saturated(s kv.Side, n int) {
	if n > 0 {
		t.counts.saturated[s].Add(int64(n))
	}
}

// inspect counts x if a value of it is no number: packed forms cannot hold
// that, so nobody would see it again.
func (t *attention) inspect(x []float32) {
	if sum := kernel.Sum(x); sum-sum == 0 {
		return // finite, all of it
	}
	for _, v := range x {
		if v-v != 0 {
			t.counts.broken.Add(1)
			return
		}
	}
}

// rowWrite is where one row and KV head goes; exact is -1 where its page has no
// exact form.
type rowWrite struct {
	page, exact, seq int32
	head             int
	at               kv.At
}

// write stores x in every part that has a place for it, and counts the blocks
// whose scale was saturated. Types that are packed by page wait with the packed
// form where there is an exact one.
func (s *side) write(w *rowWrite, x []float32, scratch *attn.Scratch) (saturated int) {
	cell := w.at.Pos % kv.PageCells
	exact := s.exact.form != nil && w.exact >= 0
	if exact {
		saturated += s.exact.form.Write(s.exact.head(w.exact, w.head), cell, x, w.at, scratch)
	}
	if !exact || !s.late {
		saturated += s.form.Write(s.head(w.page, w.head), cell, x, w.at, scratch)
	}
	if s.sinks.form != nil && w.at.Pos < s.sinks.form.Cells() {
		saturated += s.sinks.form.Write(s.sinks.head(w.seq, w.head), w.at.Pos, x, w.at, scratch)
	}
	return saturated
}

// packs is the pages that this batch packs.
func (t *attention) packs() []llm.Pack {
	if t.late.of == 0 {
		return nil
	}
	return t.p.b.Packs[t.cache.group]
}

// place is a layer's number among those of its group that are packed by page.
type place struct{ index, of int }

// lateAmong finds the place of a layer; zero where it is not packed by page.
func lateAmong(l *kv.Layout, layer int) (p place) {
	late := func(y *kv.LayerLayout) bool { return y.K.Late() || y.V.Late() }
	y := &l.Layers[layer]
	if !late(y) {
		return p
	}
	for _, i := range l.Groups[y.Group].Layers {
		if i == layer {
			p.index = p.of
		}
		if late(&l.Layers[i]) {
			p.of++
		}
	}
	return p
}

// packTasks is the number of pages, now or beside attention, that this layer
// packs in this batch, times sides and KV heads.
func (t *attention) packTasks(now bool) (n int) {
	list := t.packs()
	for i := range list {
		if t.packsIn(&list[i], now) {
			n++
		}
	}
	return n * 2 * t.KVHeads
}

// packsIn reports whether it is this layer's turn.
func (t *attention) packsIn(p *llm.Pack, now bool) bool {
	step := t.late.index * p.Of / t.late.of
	return p.Now == now && step >= p.From && step < p.To
}

// pack packs one side and KV head of a page.
func (t *attention) pack(worker, task int, now bool) {
	s, side, head := &t.cache.k, kv.K, task/2%t.KVHeads
	if task%2 == 1 {
		s, side = &t.cache.v, kv.V
	}
	if !s.late {
		return
	}
	skip := task / (2 * t.KVHeads)
	list := t.packs()
	for i := range list {
		p := &list[i]
		if !t.packsIn(p, now) {
			continue
		}
		if skip == 0 {
			t.saturated(side, s.form.Pack(s.head(p.Page, head), s.exact.form, s.exact.head(p.Exact, head), t.workers[worker].scratch))
			return
		}
		skip--
	}
	panic("cpu: pack task out of range")
}
