package cpu

import (
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// writeTasks is the number of pages that this batch writes, times KV heads. A
// page is written by one task: its cells share bytes.
func (t *attention) writeTasks() int {
	if t.single() {
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
func (t *attention) writeRow(w *attnWorker, span, head, row int) {
	p := t.p
	pos := int(p.b.Pos[row])
	page := p.b.Tables[t.cache.group][span][pos/kv.PageCells]
	at := kv.At{Pos: pos, RopeBase: t.RopeBase}
	k := p.row(t.k, row)[head*t.DimK : (head+1)*t.DimK]
	if t.cache.channels != nil {
		t.cache.channels[head].Level(w.levelled, k)
		k = w.levelled
	}
	t.cache.k.form.Write(t.cache.k.head(page, head), pos%kv.PageCells, k, at, w.scratch)
	if t.v == graph.None {
		return
	}
	v := p.row(t.v, row)[head*t.DimV : (head+1)*t.DimV]
	t.cache.v.form.Write(t.cache.v.head(page, head), pos%kv.PageCells, v, at, w.scratch)
}
