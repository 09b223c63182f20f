package sched

import (
	"slices"

	"godwit/engine/kv"
)

// Stops are the positions where messages of a prompt end, since later prompts may continue
// there. Models that cannot be cut at every position end a chunk at each stop, and store
// what a row there reads.

// newestStops is how many of the last message ends are kept.
const newestStops = 8

// thinned picks some of ascending positions: the first one, which ends the common beginning
// of all turns, the newest ones, and between them one for each doubling of the distance
// from the end.
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

// stop stores what a slot has read at each of its stops.
func (s *Sched) stop(i int) {
	sl := &s.slots[i]
	pos := len(sl.tokens)
	if sl.task == nil || !slices.Contains(sl.task.stops, pos) {
		return
	}
	sl.chain.dirty = true
	s.keepAt(i, pos)
}

// keepAt keeps what a text that continues at a position of a slot needs there.
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
