package sched

import (
	"slices"
	"sync"
	"time"
)

// View is the last published state of a scheduler: its slots and its usage.
type View struct {
	Slots []SlotInfo
	Usage
}

// countEvery is how often the counters of the device are read while jobs run.
const countEvery = time.Second

// view holds a View. Readers copy it under a lock that the loop never holds
// during a step.
type view struct {
	mu      sync.Mutex
	last    View
	counted time.Time // when the loop last read the counters; zero: read them now
}

// View returns the state from before the running step, or the current state if
// no step is running. It never waits for the device.
func (s *Sched) View() (View, error) {
	select {
	case <-s.quit:
		return View{}, ErrClosed
	default:
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	v := s.view.last
	v.Slots, v.Counts = slices.Clone(v.Slots), slices.Clone(v.Counts)
	return v, nil
}

// publish updates the view. It runs on the loop's goroutine and allocates
// only when it reads the device's counters.
func (s *Sched) publish() {
	counts, memory := s.view.last.Counts, s.view.last.Memory
	if now := time.Now(); now.Sub(s.view.counted) >= countEvery {
		s.view.counted = now
		counts, memory = s.prog.Counts(), s.prog.Memory()
	}
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	s.view.last.Slots = s.describe(s.view.last.Slots[:0])
	s.view.last.Usage = Usage{Free: s.cache.Free(), Queued: len(s.queue), Counts: counts, Memory: memory}
}

// describe appends the state of every slot.
func (s *Sched) describe(out []SlotInfo) []SlotInfo {
	for i := range s.slots {
		sl := &s.slots[i]
		info := SlotInfo{Slot: i, Tokens: len(sl.tokens)}
		if sl.task != nil {
			info.Busy, info.Prompt, info.Done = true, sl.task.stats.Prompt, sl.task.stats.Generated
		}
		out = append(out, info)
	}
	return out
}
