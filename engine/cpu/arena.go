package cpu

import (
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/graph"
)

// arena is one mapping for all matrices that a plan adds, in the order in which
// they are read. Most matrices are smaller than a huge page. With small pages a
// sequential read stalls at every page boundary.
type arena struct {
	mem  memory
	used int
	refs int // number of matrices in this mapping
}

// arenaAlign gives each matrix its own pages, so that it can be locked
// separately.
const arenaAlign = 4096

// newArena allocates memory for the packed forms of the weights in list, except
// those that another program already holds.
func (b *Backend) newArena(list []*graph.Weight) (*arena, error) {
	n := arenaBytes(list, &b.options, func(g *graph.Weight) bool { return b.shared[g] != nil })
	mem, err := allocate(n)
	if err != nil {
		return nil, fmt.Errorf("%w: the system refuses %v for the weights: %w", backend.ErrMemory, backend.Bytes(n), err)
	}
	return &arena{mem: mem}, nil
}

// arenaBytes returns the memory for the packed forms of the weights in list,
// except those that a program already holds.
func arenaBytes(list []*graph.Weight, o *backend.Options, held func(*graph.Weight) bool) int {
	n := 0
	seen := make(map[*graph.Weight]bool)
	for _, g := range list {
		if size, ok := packed(g, o); ok && !held(g) && !seen[g] {
			seen[g] = true
			n += g.Mats()*size + arenaAlign
		}
	}
	return n
}

// WeightBytes returns the bytes that the packed matrices and the vectors of a plan
// occupy. Matrices that are read in place from the file occupy no memory.
func (Driver) WeightBytes(p *graph.Plan, o backend.Options) int64 {
	n := int64(arenaBytes(matrices(p), &o, func(*graph.Weight) bool { return false }))
	seen := make(map[*graph.Weight]bool)
	for _, v := range vectorsOf(p) {
		if v != nil && !seen[v] {
			seen[v] = true
			n += 4 * int64(v.Elems())
		}
	}
	return n
}

// next returns the next n bytes.
func (a *arena) next(n int) memory {
	from := (a.used + arenaAlign - 1) &^ (arenaAlign - 1)
	a.used = from + n
	a.refs++
	return a.mem[from:a.used:a.used]
}

// drop releases one matrix. Releasing the last one frees the mapping.
func (a *arena) drop() error {
	if a.refs--; a.refs > 0 {
		return nil
	}
	return a.mem.free()
}
