package cpu

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/graph"
)

// arena is one mapping for all matrices that a plan adds, in the order in which
// they are read. Most matrices are smaller than a huge page, and with small
// pages a sequential read stalls at every page boundary.
type arena struct {
	mem  memory
	used int
	refs int // matrices in this mapping
}

// arenaAlign puts each matrix on pages of its own, so that it can be locked
// alone.
const arenaAlign = 4096

// newArena allocates memory for the packed forms of the weights in list that no
// other program holds.
func (b *Backend) newArena(list []*graph.Weight) (*arena, error) {
	n := 0
	seen := make(map[*graph.Weight]bool)
	for _, g := range list {
		if size, ok := b.packed(g); ok && b.shared[g] == nil && !seen[g] {
			seen[g] = true
			n += g.Mats()*size + arenaAlign
		}
	}
	mem, err := allocate(n)
	if err != nil {
		return nil, fmt.Errorf("%w: the weights need %d bytes: %w", backend.ErrMemory, n, err)
	}
	return &arena{mem: mem}, nil
}

// take returns the next n bytes.
func (a *arena) take(n int) memory {
	from := (a.used + arenaAlign - 1) &^ (arenaAlign - 1)
	a.used = from + n
	a.refs++
	return a.mem[from:a.used:a.used]
}

// drop releases one matrix; the last one frees the mapping.
func (a *arena) drop() error {
	if a.refs--; a.refs > 0 {
		return nil
	}
	return a.mem.free()
}
