package cpu

import (
	"slices"
	"sort"
	"sync"

	"godwit/engine/backend"
	"godwit/engine/cpu/kernel"
)

// strays lists the rows of a batch for which a layer computed NaN or infinity.
// Attention skips a NaN score, and a packed key cannot hold NaN, so such a row would
// continue with meaningless values.
type strays struct {
	mu    sync.Mutex
	rows  []int
	layer int
	what  string
}

// numbers reports whether x, which a layer computed for a row, is finite. A row
// that is not finite is reported at the end of the batch.
func (p *program) numbers(x []float32, layer int, what string, row int) bool {
	if sum := kernel.Sum(x); sum-sum == 0 {
		return true // every value is finite
	}
	if !slices.ContainsFunc(x, func(v float32) bool { return v-v != 0 }) {
		return true
	}
	s := &p.strays
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) == 0 || layer < s.layer {
		s.layer, s.what = layer, what
	}
	s.rows = append(s.rows, row)
	return false
}

// end returns the error of a batch with such rows, and clears the list.
func (s *strays) end() error {
	if len(s.rows) == 0 {
		return nil
	}
	slices.Sort(s.rows)
	err := &backend.NotNumbers{Layer: s.layer, What: s.what, Rows: slices.Compact(slices.Clone(s.rows))}
	s.rows = s.rows[:0]
	return err
}

// layer is the layer of the node that is being compiled.
func (c *compiler) layer() int {
	first := c.p.plan.Layers
	return max(0, sort.SearchInts(first, len(c.step)+1)-1)
}
