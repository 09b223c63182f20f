package cpu

import (
	"fmt"
	"math"
	"slices"

	"godwit/engine/backend"
	"godwit/engine/cpu/kernel"
	"godwit/engine/graph"
)

// rowWise returns the function of a node whose rows are independent.
func (c *compiler) rowWise(n graph.Node) (rowOp, error) {
	p := c.p
	out := func(row int) []float32 { return p.row(n.Out, row) }
	in := func(i, row int) []float32 { return p.row(n.In[i], row) }
	switch op := n.Op.(type) {
	case graph.Input:
		w := p.plan.Values[n.Out].Width
		return func(row int) { copy(out(row), p.b.Input[row*w:(row+1)*w]) }, nil
	case graph.Embed:
		return c.embed(n, op)
	case graph.Norm:
		return c.norm(n, op), nil
	case graph.Affine:
		return c.affine(n, op), nil
	case graph.Temperature:
		return func(row int) { kernel.Scale(out(row), in(0, row), temperature(op, int(p.b.Pos[row]))) }, nil
	case graph.Add:
		return func(row int) { kernel.Add(out(row), in(0, row), in(1, row)) }, nil
	case graph.Mul:
		return func(row int) { mulGroups(out(row), in(0, row), in(1, row)) }, nil
	case graph.Scale:
		return func(row int) { kernel.Scale(out(row), in(0, row), op.By) }, nil
	case graph.Softcap:
		return func(row int) { kernel.Softcap(out(row), in(0, row), op.Cap) }, nil
	case graph.Clamp:
		return func(row int) { clamp(out(row), in(0, row), op.Low, op.High) }, nil
	case graph.Supplied:
		return func(row int) { p.supplied(op, out(row), in(0, row), row) }, nil
	case graph.Probs:
		return func(row int) {
			x, y := in(0, row), out(row)
			for i := 0; i < len(x); i += op.Group {
				kernel.Softmax(y[i:i+op.Group], x[i:i+op.Group])
			}
		}, nil
	case graph.Act:
		return func(row int) { act(op.F, out(row), in(0, row)) }, nil
	case graph.Slice:
		return func(row int) {
			x, y := in(0, row), out(row)
			for i := 0; i < len(y); i += op.Take {
				copy(y[i:i+op.Take], x[op.First:])
				x = x[op.Group:]
			}
		}, nil
	case graph.Concat:
		return func(row int) { concat(op, out(row), in(0, row), in(1, row)) }, nil
	case graph.Repeat:
		return func(row int) { repeat(op, out(row), in(0, row)) }, nil
	case graph.Route:
		return c.route(n, op.Routing), nil
	case graph.ExpertSum:
		return func(row int) { expertSum(op.Used, out(row), in(0, row), in(1, row)) }, nil
	case graph.ExpertScale:
		w := p.weights.floats(op.W)
		return func(row int) {
			x, ids := in(0, row), in(1, row)
			part := len(x) / op.Used
			for i := range op.Used {
				kernel.Scale(out(row)[i*part:(i+1)*part], x[i*part:(i+1)*part], w[int(ids[i])])
			}
		}, nil
	}
	return nil, fmt.Errorf("%w: op %T on cpu", backend.ErrUnsupported, n.Op)
}

func (c *compiler) embed(n graph.Node, op graph.Embed) (rowOp, error) {
	p := c.p
	m := p.weights.mats[op.W]
	scale := op.Scale
	if scale == 0 {
		scale = 1
	}
	limit := op.W.Rows()
	return func(row int) {
		id := 0
		switch op.From {
		case graph.ByToken:
			id = int(p.b.Tokens[row])
		case graph.ByPosition:
			id = int(p.b.Pos[row])
		}
		y := p.row(n.Out, row)
		p.backend.pool.fail(m.row(y, min(max(id, 0), limit-1)))
		if scale != 1 {
			kernel.Scale(y, y, scale)
		}
	}, nil
}

func (c *compiler) norm(n graph.Node, op graph.Norm) rowOp {
	p := c.p
	w, b := p.weights.floats(op.W), p.weights.floats(op.B)
	part := func(v []float32, i int) []float32 {
		if len(v) <= op.Group {
			return v
		}
		return v[i : i+op.Group]
	}
	return func(row int) {
		x, y := p.row(n.In[0], row), p.row(n.Out, row)
		for i := 0; i < len(x); i += op.Group {
			gx, gy := x[i:i+op.Group], y[i:i+op.Group]
			switch op.Kind {
			case graph.RMS:
				kernel.RMSNorm(gy, gx, part(w, i), op.Eps)
			case graph.Layer:
				kernel.LayerNorm(gy, gx, part(w, i), nil, op.Eps)
			case graph.L2:
				s := float32(math.Sqrt(float64(kernel.Dot(gx, gx))))
				kernel.Scale(gy, gx, 1/max(s, op.Eps))
				if w != nil {
					kernel.Mul(gy, gy, part(w, i))
				}
			}
			if b != nil {
				kernel.Add(gy, gy, part(b, i))
			}
		}
	}
}

func (c *compiler) affine(n graph.Node, op graph.Affine) rowOp {
	p := c.p
	w, b := p.weights.floats(op.W), p.weights.floats(op.B)
	return func(row int) {
		x, y := p.row(n.In[0], row), p.row(n.Out, row)
		switch {
		case w == nil:
			copy(y, x)
		case len(w) == 1:
			kernel.Scale(y, x, w[0])
		default:
			for i := 0; i < len(x); i += len(w) {
				kernel.Mul(y[i:i+len(w)], x[i:i+len(w)], w)
			}
		}
		if b == nil {
			return
		}
		for i := 0; i < len(y); i += len(b) {
			kernel.Add(y[i:i+len(b)], y[i:i+len(b)], b)
		}
	}
}

func (c *compiler) rope(n graph.Node, op graph.Rope) rowOp {
	p := c.p
	if len(op.Freqs) == 0 {
		return func(row int) { copy(p.row(n.Out, row), p.row(n.In[0], row)) }
	}
	t := p.ropeTable(op)
	half := len(op.Freqs)
	return func(row int) {
		x, y := p.row(n.In[0], row), p.row(n.Out, row)
		cs := t.rows[row*2*half : (row+1)*2*half]
		copy(y, x)
		for i := op.First; i < len(y); i += op.HeadDim {
			kernel.Rope(y[i:i+2*half], cs[:half], cs[half:], op.Adjacent)
		}
	}
}

// ropeTable returns the table for the frequencies of op. It makes each table
// once.
func (p *program) ropeTable(op graph.Rope) *ropeTable {
	for _, t := range p.ropes {
		if &t.freqs[0] == &op.Freqs[0] && t.scale == op.Scale && slices.Equal(t.axes, op.Axes) {
			return t
		}
	}
	t := &ropeTable{freqs: op.Freqs, axes: op.Axes, scale: op.Scale, rows: make([]float32, p.sizes.Rows*2*len(op.Freqs))}
	p.ropes = append(p.ropes, t)
	return t
}

// temperature returns the factor of a query at a position.
func temperature(t graph.Temperature, pos int) float32 {
	return float32(1 + float64(t.Scale)*math.Log(float64(1+(pos+t.Offset)/t.Every)))
}

// mulGroups multiplies each group of len(x)/len(y) columns of x by one column
// of y.
func mulGroups(dst, x, y []float32) {
	if len(x) == len(y) {
		kernel.Mul(dst, x, y)
		return
	}
	n := len(x) / len(y)
	for i, s := range y {
		kernel.Scale(dst[i*n:(i+1)*n], x[i*n:(i+1)*n], s)
	}
}

func act(f graph.Func, dst, x []float32) {
	switch f {
	case graph.Identity:
		copy(dst, x)
	case graph.SiLU:
		kernel.SiLU(dst, x)
	case graph.GELU:
		kernel.GELU(dst, x)
	case graph.GELUErf:
		kernel.GELUErf(dst, x)
	case graph.ReLU:
		kernel.ReLU(dst, x)
	case graph.ReLU2:
		kernel.ReLU2(dst, x)
	case graph.Sigmoid:
		kernel.Sigmoid(dst, x)
	case graph.Softplus:
		kernel.Softplus(dst, x)
	case graph.Tanh:
		kernel.Softcap(dst, x, 1)
	case graph.Exp:
		kernel.Exp(dst, x)
	case graph.GELUQuick:
		kernel.GELUQuick(dst, x)
	}
}

func glu(op graph.Glu, dst, gate, up []float32) {
	switch {
	case op.Limit > 0:
		for i, g := range gate {
			dst[i] = min(g, op.Limit)
		}
		kernel.GELUQuick(dst, dst)
		for i, u := range up {
			dst[i] *= max(-op.Limit, min(op.Limit, u)) + 1
		}
	case op.F == graph.SiLU:
		kernel.SiLUMul(dst, gate, up)
	case op.F == graph.GELU:
		kernel.GELUMul(dst, gate, up)
	default:
		act(op.F, dst, gate)
		kernel.Mul(dst, dst, up)
	}
}

func concat(op graph.Concat, dst, x, y []float32) {
	a, b := op.GroupA, op.GroupB
	n := len(dst) / (a + b)
	for i := range n {
		d := dst[i*(a+b):]
		copy(d[:a], x[i*a%len(x):])
		copy(d[a:a+b], y[i*b%len(y):])
	}
}

func repeat(op graph.Repeat, dst, x []float32) {
	if op.Tile {
		for i := 0; i < len(dst); i += len(x) {
			copy(dst[i:], x)
		}
		return
	}
	for i := 0; i < len(x); i += op.Group {
		for t := range op.Times {
			copy(dst[i*op.Times+t*op.Group:], x[i:i+op.Group])
		}
	}
}

func expertSum(used int, dst, x, route []float32) {
	n := len(dst)
	kernel.Scale(dst, x[:n], route[used])
	for i := 1; i < used; i++ {
		kernel.Axpy(dst, x[i*n:(i+1)*n], route[used+i])
	}
}
