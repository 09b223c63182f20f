package cpu

import (
	"godwit/engine/kv"
	"godwit/engine/llm"
)

// A chunk is a run of pages with its own softmax. The chunks of a row are
// merged in order, whichever worker computed them. The first two chunks are
// short, the next ones are twice as long, and the rest are long. A long context
// then has few chunks, and a short one has enough for every worker.
const (
	shortPages  = 512 / kv.PageCells
	middlePages = 2 * shortPages
	longPages   = 4 * shortPages
)

// cuts is the number of leading pages that are not in long chunks. Each new
// chunk starts another memory stream and costs a merge.
type cuts int

// cutsFor returns the cuts of a layer. Layers with fewer heads switch to long chunks
// later.
func cutsFor(kvHeads int) cuts { return cuts(longPages * max(1, 4/kvHeads)) }

// chunk returns the chunk that holds a page.
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

// start returns the first page of a chunk.
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

// room returns the largest number of chunks that n consecutive pages touch. The
// worst range begins with the last page of the first chunk.
func (c cuts) room(n int) int { return c.chunk(n+shortPages-2) + 1 }

// job is some rows of a span for one KV head.
type job struct {
	span        int
	head        int
	first, rows int // rows of the batch
	lo, hi      int // pages that at least one row sees
	split       int // index among the split jobs, -1 if the context is not split
	chunk, end  int // chunks of this task if the job is split
	chunks      int // number of chunks of the whole job
}

// last reports whether a job covers the last chunk of its context.
func (j *job) last() bool { return j.split < 0 || j.end == j.chunks }

// splits reports whether the batch has so few spans that contexts are divided
// among the workers.
func (t *attention) splits() bool {
	return t.single() && len(t.p.b.Spans)*t.KVHeads <= t.jobs
}

// cut chooses the number of pages per task when contexts are divided, and
// returns the number of tasks. A task processes the chunks that begin in its
// pages, perhaps none. Neighbouring tasks therefore have the same amount of
// work, whatever the length of the chunks.
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

// pieces returns the number of pieces of size pages in the contexts of all
// heads of a span.
func (t *attention) pieces(s llm.Span, size int) int {
	lo, hi := t.pages(s, s.First, 1)
	return t.KVHeads * piecesOf(lo, hi, size)
}

// piecesOf returns the number of pieces of size pages that a page range
// touches.
func piecesOf(lo, hi, size int) int { return (hi-1)/size - lo/size + 1 }

// single reports whether every span of this batch is one row.
func (t *attention) single() bool { return len(t.p.b.Spans) == len(t.p.b.Tokens) }

// pages returns the range of pages that rows first to first+n-1 of a span see.
func (t *attention) pages(s llm.Span, first, n int) (lo, hi int) {
	from, _ := t.Sees(int(t.p.b.Pos[first]), s.Len)
	_, to := t.Sees(int(t.p.b.Pos[first+n-1]), s.Len)
	for r := first; r < first+n; r++ {
		to = max(to, min(t.tileEnd(r), s.Len))
	}
	return from / kv.PageCells, ceil(to, kv.PageCells)
}

// tileEnd returns the end of a row's tile if rows of this layer see their whole
// tile, and 0 otherwise.
func (t *attention) tileEnd(row int) int {
	if !t.Tiles || t.p.b.Sees == nil {
		return 0
	}
	return int(t.p.b.Sees[row])
}

// tasks returns the number of tasks of a batch. Jobs with few pages are short,
// so a task has several of them, as long as every worker still gets about four
// tasks.
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

// taskPages is the number of pages that makes a task long enough. maxPer is the
// largest number of jobs in a task.
const (
	taskPages = 8
	maxPer    = taskPages
)

func ceil(n, by int) int { return (n + by - 1) / by }

// find returns a job, or false if no job is left. Jobs of one head are
// consecutive, so that a worker finds their cells in its second-level cache.
// Later rows see more cells and come first.
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
			chunk++ // the chunk begins in an earlier piece
		}
		end := t.cuts.chunk(min(hi, at+size)-1) + 1
		return job{
			span: i, head: head, first: s.First, rows: 1, lo: lo, hi: hi,
			split: i*t.KVHeads + head, chunk: chunk - first, end: end - first, chunks: t.cuts.chunk(hi-1) + 1 - first,
		}, chunk < end
	}
	return job{}, false
}

// runSplit processes some chunks. The worker that finishes the last chunk
// merges all of them.
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
