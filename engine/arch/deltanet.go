package arch

import (
	"math"

	"godwit/engine/graph"
	"godwit/engine/model"
)

// deltaNet is a layer of gated linear attention. q, k and v pass through a short
// convolution, one matrix per value head replaces the cache, and the result is
// normalised and gated. Source: arXiv 2412.06464.
type deltaNet struct {
	layer         int
	op            graph.DeltaNet
	eps           float32
	qkv, z        *graph.Weight // in the merged form z is nil and qkv holds everything, ordered by key head
	beta, alpha   *graph.Weight // in the merged form alpha is nil
	conv          *graph.Weight
	dt, a         *graph.Weight
	norm          norm
	out           *graph.Weight
	merged        bool
	perKey, width int // value heads per key head; columns of q, k and v
}

// recurrentLayers returns which layers are linear attention: those of an array in
// the file, or all except every n-th.
func recurrentLayers(f *model.File, c *model.Config) []bool {
	if v, ok := f.Bools("attention.recurrent_layers", c.Layers); ok {
		return v
	}
	n := f.IntOr("full_attention_interval", 4)
	if n == 0 {
		f.Fail("full_attention_interval", "0")
		n = 1
	}
	out := make([]bool, c.Layers)
	for i := range out {
		out[i] = (i+1)%n != 0
	}
	return out
}

// bindDeltaNet binds the weights that all variants share. Their projections differ.
func bindDeltaNet(f *model.File, c *model.Config, layer int) *deltaNet {
	dim, keys, values := f.Int("ssm.state_size"), f.Int("ssm.group_count"), f.Int("ssm.time_step_rank")
	if values%keys != 0 || values > maxHeads || dim > maxHeadDim || f.Int("ssm.inner_size") != values*dim {
		f.Fail("ssm", "%d value heads, %d key heads, head size %d and inner size %d do not fit together", values, keys, dim, f.Int("ssm.inner_size"))
		keys, values, dim = 1, 1, 1
	}
	if c.Embedding {
		f.Fail("attention.causal", "false, and layer %d is recurrent", layer)
	}
	d := &deltaNet{
		layer: layer, eps: f.Epsilon("attention.layer_norm_rms_epsilon"),
		perKey: values / keys, width: (2*keys + values) * dim,
		op: graph.DeltaNet{
			KeyHeads: keys, ValueHeads: values, KeyDim: dim, ValueDim: dim,
			Scale: float32(1 / math.Sqrt(float64(dim))),
		},
		dt:   f.Weight(blk(layer, "ssm_dt.bias"), values),
		a:    f.Weight(blk(layer, "ssm_a"), values),
		norm: rms(f, blk(layer, "ssm_norm"), dim),
		out:  f.Matrix(blk(layer, "ssm_out.weight"), values*dim, c.Embd),
	}
	d.norm.group = dim
	d.conv = f.Weight(blk(layer, "ssm_conv1d.weight"), f.Int("ssm.conv_kernel"), d.width)
	return d
}

// bindProjections binds one matrix for q, k and v and another for the gate.
func (d *deltaNet) bindProjections(f *model.File, c *model.Config) {
	d.qkv = f.Matrix(blk(d.layer, "attn_qkv.weight"), c.Embd, d.width)
	d.z = f.Matrix(blk(d.layer, "attn_gate.weight"), c.Embd, d.op.ValueHeads*d.op.ValueDim)
}

// project computes q, k and v as one row, the gate, and for each value head the
// write strength and the decay.
func (d *deltaNet) project(g *graph.Builder, x graph.Value) (qkv, z, beta, alpha graph.Value) {
	qkv = g.Linear(x, d.qkv, nil)
	if d.merged {
		dim, each := d.op.KeyDim, d.perKey*d.op.ValueDim
		all, group := qkv, 2*dim+2*each
		q, k, v := g.Slice(all, group, 0, dim), g.Slice(all, group, dim, dim), g.Slice(all, group, 2*dim, each)
		qkv = g.Concat(q, k, g.Width(q), g.Width(k))
		qkv = g.Concat(qkv, v, g.Width(qkv), g.Width(v))
		z = g.Slice(all, group, 2*dim+each, each)
	} else {
		z = g.Linear(x, d.z, nil)
	}
	beta = g.Linear(x, d.beta, nil)
	if d.alpha != nil {
		return qkv, z, beta, g.Linear(x, d.alpha, nil)
	}
	return qkv, z, g.Slice(beta, 2*d.perKey, 0, d.perKey), g.Slice(beta, 2*d.perKey, d.perKey, d.perKey)
}

func (d *deltaNet) forward(g *graph.Builder, x graph.Value, _ model.Inputs) graph.Value {
	qkv, z, beta, alpha := d.project(g, x)
	decay := g.Affine(g.Act(g.Affine(alpha, nil, d.dt), graph.Softplus), d.a, nil)
	qkv = g.ShortConv(qkv, d.layer, d.conv, nil, graph.SiLU)
	keys := d.op.KeyHeads * d.op.KeyDim
	unit := func(first int) graph.Value {
		return g.Norm(g.Slice(qkv, 0, first, keys), graph.L2, nil, nil, d.eps, d.op.KeyDim)
	}
	v := g.Slice(qkv, 0, 2*keys, d.op.ValueHeads*d.op.ValueDim)
	y := g.DeltaNet(unit(0), unit(keys), v, decay, g.Act(beta, graph.Sigmoid), d.layer, d.op)
	y = g.Glu(z, d.norm.apply(g, y), graph.SiLU, 0)
	return g.Linear(y, d.out, nil)
}
