// Package arch contains the model architectures, one file each. A file binds an
// architecture's weights by tensor name and defines how its blocks are built.
// Importing the package registers all architectures with engine/model.
//
// Code that architectures share is in decoder.go (the decoder's blocks and residual
// stream), attention.go, heads.go, ffn.go and experts.go.
package arch

import (
	"fmt"

	"godwit/engine/graph"
	"godwit/engine/model"
)

// blk returns the name of a tensor of a layer.
func blk(layer int, name string) string { return fmt.Sprintf("blk.%d.%s", layer, name) }

// norm is a normalisation with its weights. The zero value does nothing.
type norm struct {
	kind  graph.NormKind
	w, b  *graph.Weight
	eps   float32
	group int
}

// given reports whether there is a norm.
func (n *norm) given() bool { return n.w != nil || n.eps != 0 }

func (n *norm) apply(g *graph.Builder, x graph.Value) graph.Value {
	if !n.given() {
		return x
	}
	return g.Norm(x, n.kind, n.w, n.b, n.eps, n.group)
}

// rms binds a root-mean-square norm over n values.
func rms(f *model.File, name string, n int) norm {
	return norm{kind: graph.RMS, w: f.Weight(name+".weight", n), eps: f.Epsilon("attention.layer_norm_rms_epsilon")}
}

// layerNorm binds a norm that subtracts the mean; its bias is optional.
func layerNorm(f *model.File, name string, n int) norm {
	return norm{
		kind: graph.Layer, w: f.Weight(name+".weight", n), b: f.Optional(name+".bias", n),
		eps: f.Epsilon("attention.layer_norm_epsilon"),
	}
}

// biased binds a layer norm whose bias is required.
func biased(f *model.File, name string, n int) norm {
	l := layerNorm(f, name, n)
	l.b = f.Weight(name+".bias", n)
	return l
}
