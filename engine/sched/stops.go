package sched

import (
	"slices"

	"godwit/engine/kv"
)

// Positions at which a prompt will be continued by others, although more of it is
// read: where its messages end. Models that cannot be cut anywhere end a chunk
// there, and what a row there reads is kept at once.

// newestStops is how many of the last message ends are kept.
const newestStops = 8

// thinned picks of some ascending positions the first one, which ends what every
// turn of a conversation begins with, the newest ones, and before those one for
// each doubling of the distance from the end.
func thinned(list []int, end int) []int {
	newest := max(0, len(list)-newestStops)
	out := slices.Clone(list[newest:])
	if newest == 0 {
		return out
	}
	last := end - list[newest]
	for _, pos := range slices.Backward(list[:newest]) {
		if end-pos >= 2*last {
			out, last = append(out, pos), end-pos
		}
	}
	out = append(out, list[0])
	slices.Sort(out)
	return slices.Compact(out)
}

// stopsOf are the positions of a job's prompt at which a chunk ends and is kept.
func (s *Sched) stopsOf(t *task) []int {
	if s.o.Prefixes == nil || t.Private || t.OneByOne || !s.cache.HasPoints() && len(s.cache.Windowed()) == 0 {
		return nil
	}
	var list []int
	for _, pos := range t.Borders {
		if !s.o.StateModel {
			pos = pos / kv.PageCells * kv.PageCells
		}
		if pos > 0 && pos < t.stats.Prompt {
			list = append(list, pos)
		}
	}
	slices.Sort(list)
	return thinned(slices.Compact(list), t.stats.Prompt)
}

// stop keeps what a slot has read where one of its stops is.
func (s *Sched) stop(i int) {
	sl := &s.slots[i]
	pos := len(sl.tokens)
	if sl.task == nil || !slices.Contains(sl.task.stops, pos) {
		return
	}
	sl.chain.dirty = true
	if !s.keeps(i) {
		return
	}
	s.fillKeys(sl, pos)
	for page := range pos / kv.PageCells {
		s.link(sl, page)
	}
	for s.keepWindows(sl, pos) {
	}
	s.keepPoint(sl, pos)
}
