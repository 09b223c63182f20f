package gpu

import (
	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
)

func (c *compiler) attend(n graph.Node, a graph.Attention) error { return c.unsupported(n, dtype.F32) }

// Skipped returns the Sparse V counters of each layer.
func (p *program) Skipped() []backend.Skip { return make([]backend.Skip, len(p.layout.Layers)) }
