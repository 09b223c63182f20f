package cpu

import (
	"math"
	"math/bits"

	"godwit/engine/cpu/attn"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
	"godwit/engine/kv"
)

// weigh turns the scores of a chunk, whose pages begin at lo, into weights. It
// stores the maximum and the sum of each query in chunks.
func (t *attention) weigh(w *attnWorker, j *job, lo int, used []uint64, chunks []softmax) {
	b := t.p.b
	length := b.Spans[j.span].Len
	stride := w.queries.N * attn.Cells
	var visible, kept [longPages]uint64
	for r := range j.rows {
		pos := int(b.Pos[j.first+r])
		seen := t.see(visible[:len(used)], pos, t.tileEnd(j.first+r), lo, length)
		if t.chosen != graph.None {
			seen = only(visible[:len(used)], lo, t.p.row(t.chosen, j.first+r))
		}
		factor := t.factor(pos)
		for g := range t.group {
			i := r*t.group + g
			s := w.scores[i*attn.Cells:]
			if t.bias != nil {
				t.addBias(s, stride, pos, lo, len(used), j.head*t.group+g)
			}
			if t.Softcap > 0 {
				for p := range used {
					row := s[p*stride:][:attn.Cells]
					if t.cache.channels != nil {
						shift(row, w.offset[i])
					}
					kernel.Scale(row, row, t.Scale)
					kernel.Softcap(row, row, t.Softcap)
				}
			}
			chunk := &chunks[i]
			chunk.max, chunk.sum = float32(math.Inf(-1)), 0
			if seen > 0 {
				chunk.max = attn.Logits(s, stride, factor, visible[:len(used)], chunk.max)
			}
			chunk.sum = attn.Weights(s, stride, visible[:len(used)], chunk.max, t.p.sizes.SparseV, kept[:])
			w.considered += seen
			for p, k := range kept[:len(used)] {
				used[p] |= k
				if v := visible[p]; k != v {
					w.skipped += bits.OnesCount64(v &^ k)
				}
			}
		}
	}
}

// factor returns the multiplier for the scores of a row at pos. If there is a
// soft cap, the multiplier applies to the capped scores.
func (t *attention) factor(pos int) float32 {
	f := t.Scale
	if t.Softcap > 0 || t.bias != nil {
		f = 1
	}
	if !t.temper.On() {
		return f
	}
	from, to := t.Sees(pos, pos+1)
	return f * t.temper.Factor(to-from)
}

// see sets a bit for each cell that a row at pos sees, in the pages from page
// on of a context with length cells. It returns the number of cells.
func (t *attention) see(visible []uint64, pos, tile, page, length int) int {
	from, to := t.Sees(pos, length)
	to = max(to, min(tile, length))
	first := page * kv.PageCells
	from, to = max(0, from-first), max(0, to-first)
	end := len(visible) * kv.PageCells
	n := max(0, min(to, end)-min(from, end))
	for i := range visible {
		lo, hi := min(from, kv.PageCells), min(to, kv.PageCells)
		switch {
		case hi-lo == kv.PageCells:
			visible[i] = ^uint64(0)
		case lo < hi:
			visible[i] = ^uint64(0) >> (64 - (hi - lo)) << lo
		default:
			visible[i] = 0
		}
		from, to = from-lo, to-hi
	}
	return n
}

// shift adds c to x.
func shift(x []float32, c float32) {
	for i := range x {
		x[i] += c
	}
}

// finish writes the output of one query head of one row. offset is the term that
// its packed scores lack. It is used only without a soft cap.
func (t *attention) finish(w *attnWorker, s *softmax, offset float32, row, head int) {
	if t.sinkLogits != nil {
		logit := t.sinkLogits[head]
		if t.cache.channels != nil && t.Softcap == 0 {
			f := t.factor(int(t.p.b.Pos[row]))
			if t.bias != nil { // with a bias the factor does not include the scale
				f *= t.Scale
			}
			logit -= f * offset
		}
		s.sink(logit)
	}
	if s.sum > 0 {
		kernel.Scale(s.acc, s.acc, 1/s.sum)
	}
	out := w.out[:t.DimV]
	if !t.inPlace {
		out = t.p.row(t.out, row)[head*t.DimV : (head+1)*t.DimV]
	}
	t.vForm.Finish(out, s.acc)
	if sum := kernel.Sum(out); sum-sum != 0 {
		makeFinite(out)
	}
	if t.quantise {
		t.p.quantisePart(t.out, row, head*t.DimV, out)
	}
}

// makeFinite replaces infinities by the largest value and NaN by 0. Sums of
// values near the end of the float32 range can give both.
func makeFinite(x []float32) {
	for i, v := range x {
		if v != v {
			v = 0
		}
		x[i] = max(-math.MaxFloat32, min(math.MaxFloat32, v))
	}
}
