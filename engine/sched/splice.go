package sched

import (
	"errors"
	"log/slog"
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/kv/pages"
	"godwit/engine/llm"
)

// A prompt may repeat a text at another position than the slot that has read it, for example
// after an edit. With Options.Splice, the rows of such a text are copied: its keys are rotated
// to their new positions, and both sides keep what they saw before the edit. The answer then
// differs from that of a prompt that is read in full.

// spliceRows is the largest number of rows that are copied before a step.
const spliceRows = 256

// splice is a part of a prompt that another slot holds at another position.
type splice struct {
	slot  int // slot with the rows
	at, n int // the part of the prompt
	from  int // position of the part in the slot
}

// splices reports whether rows can be copied to other positions.
func (s *Sched) splices() bool {
	l := s.cache.Layout()
	return s.o.Splice > 0 && !s.o.StateModel && len(s.o.Rotary) == len(l.Layers) &&
		!slices.ContainsFunc(l.Groups, func(g layout.Group) bool { return g.SelfCalibrated })
}

// WarnSplice logs it if the options ask for copies that the model or its cache types exclude.
func (s *Sched) WarnSplice(log *slog.Logger) {
	if s.o.Splice > 0 && !s.splices() {
		log.Warn("text behind edits not reused with this model and cache")
	}
}

// findSplices looks for parts of a job's prompt in the idle slots other than its own. At least
// one token is left to compute.
func (s *Sched) findSplices(t *task, dst int) (best []splice) {
	have := len(s.slots[dst].tokens)
	if !s.splices() || t.Fresh || t.Next == nil || len(t.Tiles) > 0 || len(t.tokens)-have <= s.o.Splice {
		return nil
	}
	most := 0
	for i := range s.slots {
		sl := &s.slots[i]
		if i == dst || sl.task != nil || sl.private || sl.copied || sl.salt != t.Salt {
			continue
		}
		list, n := match(t.tokens[:len(t.tokens)-1], have, sl.tokens, s.o.Splice)
		if n > most {
			best, most = list, n
			for k := range best {
				best[k].slot = i
			}
		}
	}
	return best
}

// match finds parts of at least n tokens that prompt has from a position on, in the order of the
// prompt and each as long as possible, in text. It returns their total length.
func match(prompt []llm.Token, from int, text []llm.Token, n int) (list []splice, total int) {
	if len(text) < n || len(prompt)-from < n {
		return nil, 0
	}
	at := make(map[uint64]int, len(text))
	for h, k := newRolling(n), 0; k < len(text); k++ {
		if sum, ok := h.add(text, k); ok {
			at[sum] = k + 1 - n
		}
	}
	h := newRolling(n)
	for k := from; k < len(prompt); k++ {
		sum, ok := h.add(prompt[from:], k-from)
		if !ok {
			continue
		}
		q, found := at[sum]
		r := k + 1 - n
		if !found || !slices.Equal(text[q:q+n], prompt[r:r+n]) || slices.ContainsFunc(prompt[r:r+n], func(t llm.Token) bool { return t < 0 }) {
			continue
		}
		end := n + common(text[q+n:], prompt[r+n:])
		list = append(list, splice{at: r, n: end, from: q})
		total += end
		from, h = r+end, newRolling(n)
		k = from - 1
	}
	return list, total
}

// rolling is a hash of the last n tokens.
type rolling struct {
	n, seen  int
	sum, top uint64 // top is the factor of the token that leaves
}

const rollingBase = 0x9E3779B97F4A7C15

func newRolling(n int) *rolling {
	r := &rolling{n: n, top: 1}
	for range n {
		r.top *= rollingBase
	}
	return r
}

// add appends token k of a list. ok is false until n tokens were added.
func (r *rolling) add(list []llm.Token, k int) (sum uint64, ok bool) {
	r.sum = r.sum*rollingBase + uint64(list[k]) + 1
	if r.seen++; r.seen > r.n {
		r.sum -= r.top * (uint64(list[k-r.n]) + 1)
	}
	return r.sum, r.seen >= r.n
}

// nextSplice returns the position of a job's next splice, or a position behind its prompt.
func (t *task) nextSplice() int {
	if len(t.splices) == 0 {
		return len(t.tokens)
	}
	return t.splices[0].at
}

// spliceAll copies rows for every job that has reached a splice. It reports whether any were
// copied.
func (s *Sched) spliceAll() (some bool) {
	for i := range s.slots {
		t := s.slots[i].task
		if t == nil || len(t.splices) == 0 || len(s.slots[i].tokens) != t.splices[0].at {
			continue
		}
		n, err := s.splice(i, &t.splices[0])
		if err != nil {
			s.forget(i)
			s.finish(i, Failed, err)
			continue
		}
		x := &t.splices[0]
		x.at, x.from, x.n = x.at+n, x.from+n, x.n-n
		if n == 0 || x.n == 0 { // without rows, the rest is computed
			t.splices = t.splices[1:]
		}
		some = some || n > 0
	}
	return some
}

// splice copies the next rows of a splice and returns their number. It returns 0 if the slot with
// the rows no longer has all of them, or if cells are missing.
func (s *Sched) splice(i int, x *splice) (int, error) {
	sl, src := &s.slots[i], &s.slots[x.slot]
	t, have, n := sl.task, len(sl.tokens), min(x.n, spliceRows, s.cache.Step(sl.seq))
	if src.task != nil || len(src.tokens) < x.from+n || !slices.Equal(src.tokens[x.from:x.from+n], t.tokens[have:have+n]) {
		return 0, nil
	}
	l := s.cache.Layout()
	moves := make([]mapped, len(l.Groups))
	for g := range l.Groups {
		// The cache may give back exact pages as the sequence grows. Their rows are packed here.
		first := have
		for first > 0 && s.cache.ExactCell(g, sl.seq, first-1) >= 0 {
			first--
		}
		moves[g].first = first
		for pos := first; pos < have; pos++ {
			moves[g].cells = append(moves[g].cells, s.cells(g, sl.seq, pos))
		}
		for k := range n {
			c := s.cells(g, src.seq, x.from+k)
			if c[layout.Packed] < 0 && c[layout.Exact] < 0 {
				return 0, nil // outside the window
			}
			moves[g].cells = append(moves[g].cells, c)
		}
	}
	if sl.mixed == 0 {
		s.flush(i) // pages of a sequence with copied rows are not stored any more
	}
	if !s.extendBeside(i, n, x.slot) {
		return 0, nil
	}
	if err := s.cache.Extend(sl.seq, 0); err != nil { // gives exact pages back
		return 0, err
	}
	for k := range l.Layers {
		y := &l.Layers[k]
		if !y.Owns() {
			continue
		}
		by := newRopeShift(s.o.Rotary[k], x.from-x.at)
		for _, side := range []kv.Side{kv.K, kv.V} {
			if err := s.spliceSide(i, k, side, &moves[y.Group], have, x, by); err != nil {
				return 0, err
			}
		}
	}
	if sl.mixed == 0 {
		sl.mixed = have
	}
	sl.tokens = append(sl.tokens, t.tokens[have:have+n]...)
	t.stats.Spliced, t.stats.Cached = t.stats.Spliced+n, t.stats.Cached+n
	s.cache.Moved(sl.seq)
	return n, nil
}

// extendBeside extends slot i by n rows. It drops other idle slots than src if necessary.
func (s *Sched) extendBeside(i, n, src int) bool {
	if s.guard(i, n) != nil {
		return false
	}
	for {
		err := s.cache.Extend(s.slots[i].seq, n)
		if !errors.Is(err, pages.ErrFull) || !s.dropIdleBut(src) {
			return err == nil
		}
	}
}

// mapped are the cells from which rows are copied, for positions from first on.
type mapped struct {
	first int
	cells []cells
}

// spliceSide copies one side of a layer. Rows before have stay at their positions.
func (s *Sched) spliceSide(i, layer int, side kv.Side, from *mapped, have int, x *splice, by []ropeShift) error {
	y := &s.cache.Layout().Layers[layer]
	if y.Side(side).RowBytes == 0 {
		return nil // V is a view of K
	}
	m := mover{prog: s.prog, y: y, layer: layer, side: side, x: make([]float32, y.Side(side).HeadDim*y.KVHeads)}
	return s.rewriteRows(&m, i, from.first, from.cells, func(pos int) (int, []ropeShift) {
		switch {
		case pos < have:
			return pos, nil
		case side != kv.K || x.from == x.at:
			return x.from + pos - have, nil
		}
		return x.from + pos - have, by
	})
}
