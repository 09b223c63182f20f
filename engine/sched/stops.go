package sched

import (
	"slices"

	"godwit/engine/kv"
)

// Stops are the positions where messages of a prompt end, since later prompts may continue there.
// In models that cannot be cut at every position, a chunk ends at each stop, and the state that
// continuing there needs is stored.

// newestStops is the number of newest stops that are always kept.
const newestStops = 8

// thinned selects some of the ascending positions in list: the first one (the end of the part that
// all turns share), the newest ones, and between them one for each doubling of the distance from
// the end.
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

// stopsOf returns the stops of a job's prompt.
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

// stop stores what a slot has read if it is at one of its stops.
func (s *Sched) stop(i int) {
	sl := &s.slots[i]
	pos := len(sl.tokens)
	if sl.task == nil || !slices.Contains(sl.task.stops, pos) {
		return
	}
	sl.chain.dirty = true
	s.keepAt(i, pos)
}

// keepAt stores what a text needs to continue at a position of a slot.
func (s *Sched) keepAt(i, pos int) {
	sl := &s.slots[i]
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
