package cpu

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/graph"
)

// arena is one mapping for all matrices that a plan adds, in the order in
// which they are read: most are smaller than a huge page, and in small pages
// reading stops at every border.
type arena struct {
	mem  memory
	used int
	refs int // matrices that live in it
}

// arenaAlign keeps matrices apart by pages, so that each can be locked.
const arenaAlign = 4096

// newArena makes room for the packed forms of those of list that no program holds.
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
		return nil, fmt.Errorf("%w: the weights want %d bytes: %w", backend.ErrMemory, n, err)
	}
	return &arena{mem: mem}, nil
}

// take is the next n bytes.
func (a *arena) take(n int) memory {
	from := (a.used + arenaAlign - 1) &^ (arenaAlign - 1)
	a.used = from + n
	a.refs++
	return a.mem[from:a.used:a.used]
}

// drop gives one matrix back; the last one frees the memory.
func (a *arena) drop() error {
	if a.refs--; a.refs > 0 {
		return nil
	}
	return a.mem.free()
}
