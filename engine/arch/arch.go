// Package arch holds the model architectures, one file each. A file binds an
// architecture's weights by tensor name and records its forward pass;
// importing the package registers all of them with engine/model.
//
// What architectures share (grouped attention, gated feed-forward, experts)
// is in attention.go and ffn.go.
package arch

import (
	"fmt"

	"godwit/engine/graph"
	"godwit/engine/model"
)

// blk names a tensor of a layer.
func blk(layer int, name string) string { return fmt.Sprintf("blk.%d.%s", layer, name) }

// base is embedded by every architecture.
type base struct{ cfg model.Config }

func (b *base) Config() *model.Config { return &b.cfg }

// logits ends a forward pass: the output matrix on the wanted rows, or the
// mean hidden state of each sequence.
func logits(g *graph.Builder, in model.Inputs, x graph.Value, output, bias *graph.Weight, softcap float32) graph.Value {
	if in.Pool {
		return g.Pool(x, graph.PoolMean)
	}
	return g.Softcap(g.Linear(g.Gather(x), output, bias), softcap)
}
