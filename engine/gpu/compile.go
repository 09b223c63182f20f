package gpu

import (
	"bytes"
	"context"
	"fmt"

	"godwit/engine/backend"
	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/shaders"
)

// compiler turns nodes into launches.
type compiler struct {
	p       *program
	hazards hazards
	fused   []bool             // nodes computed by the launch of an earlier node
	attends map[int]*attention // attention of each Attend node
	room    attendMemory
}

// build prepares a program. It fixes the size of all device memory.
func (p *program) build(ctx context.Context) error {
	if err := p.load(ctx); err != nil {
		return err
	}
	if err := p.newCache(); err != nil {
		return err
	}
	if err := p.newStates(); err != nil {
		return err
	}
	c := &compiler{p: p, fused: make([]bool, len(p.plan.Nodes)), attends: map[int]*attention{}}
	step := make([]int, len(p.plan.Nodes))
	for i := range p.plan.Nodes {
		step[i] = i
		if c.normOfSum(i - 1) {
			c.fused[i], step[i] = true, i-1
		}
	}
	first, last := p.plan.Lifetimes(step)
	p.mem = p.plan.PlanMemory(p.capacity(), p.outputs(), first, last)
	var err error
	if p.scratch, err = p.alloc(int64(4*p.mem.Size), "scratch"); err != nil {
		return err
	}
	p.image = newImage(p)
	if p.unused, err = p.alloc(imageAlign, "unused"); err != nil {
		return err
	}
	if err := c.attentions(); err != nil {
		return err
	}
	if p.image.buffer, err = p.alloc(p.image.finish(), "batch"); err != nil {
		return err
	}
	for i, n := range p.plan.Nodes {
		if c.fused[i] {
			continue
		}
		if err := c.node(i, n); err != nil {
			return err
		}
	}
	return c.addTop()
}

// attentions selects the kernels of all Attend ops and allocates the memory
// that they share.
func (c *compiler) attentions() error {
	p := c.p
	var list []*attention
	for i, n := range p.plan.Nodes {
		op, ok := n.Op.(graph.Attend)
		if !ok {
			continue
		}
		t, err := c.attend(n, op.Attention)
		if err != nil {
			return err
		}
		p.image.tilesOf(t.decode.Rows, t.cache.layout.Exact)
		p.image.tilesOf(t.prefill.Rows, t.cache.layout.Exact)
		c.attends[i] = t
		list = append(list, t)
	}
	if list == nil {
		return nil
	}
	var err error
	if p.counters, err = p.alloc(int64(countBytes*len(p.layout.Layers)), "counters"); err != nil {
		return err
	}
	if err := p.newPacks(); err != nil {
		return err
	}
	c.room, err = p.attendRoom(list)
	return err
}

// alloc allocates scratch memory and counts it.
func (p *program) alloc(size int64, label string) (Buffer, error) {
	b, err := p.dev.Alloc(max(size, imageAlign), nil, label)
	if err != nil {
		return nil, err
	}
	p.used.Scratch += b.Size()
	p.buffers = append(p.buffers, b)
	return b, nil
}

// value returns the memory of a value.
func (c *compiler) value(v graph.Value) place {
	p := c.p
	info := p.plan.Values[v]
	n := p.capacity()
	if info.Rows == graph.OutputRows {
		n = p.outputs()
	}
	return place{Bind{p.scratch, int64(4 * p.mem.Offset[v])}, int64(4 * n * info.Width)}
}

// weight returns the memory of a weight. For nil, it returns a buffer that
// kernels do not read.
func (c *compiler) weight(w *graph.Weight) place {
	if w == nil {
		return c.none()
	}
	b := c.p.weights[w].buffer
	return place{Bind{b, 0}, b.Size()}
}

func (c *compiler) none() place { return place{Bind{c.p.unused, 0}, 0} }

// batch returns an array of n values of the batch image.
func (c *compiler) batch(at int64, n int) place {
	return place{Bind{c.p.image.buffer, at}, int64(4 * n)}
}

// rows returns the description of the rows for the layers of a group.
func (c *compiler) rows(group int) place { return c.batch(c.p.image.rows[group], 4*c.p.capacity()) }

// tables returns the page tables of all groups.
func (c *compiler) tables() place {
	m := c.p.image
	return c.batch(m.tables, len(c.p.layout.Groups)*m.spans*(m.stride+m.exact))
}

func length(w *graph.Weight) uint32 {
	if w == nil {
		return 0
	}
	return uint32(w.Elems())
}

// unsupported returns the error for an op or type that the device lacks.
func (c *compiler) unsupported(n graph.Node, t dtype.Type) error {
	return fmt.Errorf("%w: op %T, type %v, on %s", backend.ErrUnsupported, n.Op, t, c.p.b.name())
}

// pictures returns an error if an op is supported only without pictures.
func (c *compiler) pictures(n graph.Node) error {
	what := ""
	switch op := n.Op.(type) {
	case graph.Rope:
		if op.Axes != nil {
			what = "RoPE by coordinates"
		}
	case graph.Attend:
		if op.Tiles {
			what = "attention in both directions within a tile"
		}
	case graph.Act:
		if op.F == graph.GELUQuick {
			what = "quick GELU"
		}
	case graph.Glu:
		if op.F == graph.GELUQuick {
			what = "quick GELU"
		}
	}
	if what == "" {
		return nil
	}
	return fmt.Errorf("%w: %s on %s", backend.ErrUnsupported, what, c.p.b.name())
}

// node adds the launches of one node.
func (c *compiler) node(i int, n graph.Node) error {
	if err := c.pictures(n); err != nil {
		return err
	}
	switch op := n.Op.(type) {
	case graph.Input:
		w := uint32(c.p.image.width)
		x := c.batch(c.p.image.input, c.p.capacity()*c.p.image.width)
		return c.columns(n, x, shaders.ColumnsParams{Width: w, Group: w, Take: w, Times: 1})
	case graph.Embed:
		return c.embed(n, op)
	case graph.Linear:
		return c.linear(n, op)
	case graph.HeadLinear:
		return c.headLinear(n, op)
	case graph.ExpertLinear:
		return c.expertLinear(n, op)
	case graph.Attend:
		return c.addAttend(c.attends[i])
	case graph.ShortConv:
		return c.shortConv(n, op)
	case graph.DeltaNet:
		return c.deltaNet(n, op)
	case graph.Probs:
		return c.p.lacks(lackSoftmax)
	case graph.Index:
		return c.p.lacks(lackIndex)
	case graph.Scan:
		return c.p.lacks(lackScan)
	case graph.Recur:
		return c.p.lacks(lackRecur)
	case graph.Route:
		return c.route(n, op.Routing)
	case graph.Norm:
		return c.norm(n, n.In[0], graph.None, graph.None, op)
	case graph.Add:
		if i+1 < len(c.fused) && c.fused[i+1] {
			norm := c.p.plan.Nodes[i+1]
			return c.norm(norm, n.In[0], n.In[1], n.Out, norm.Op.(graph.Norm))
		}
		return c.binary(n, 0)
	case graph.Mul:
		return c.binary(n, 1)
	}
	return c.simple(n)
}

// simple adds the launch of an op with one thread per element.
func (c *compiler) simple(n graph.Node) error {
	plan := c.p.plan
	width := func(i int) uint32 { return uint32(plan.Values[n.In[i]].Width) }
	switch op := n.Op.(type) {
	case graph.Scale:
		return c.unary(n, shaders.UnaryParams{By: op.By})
	case graph.Softcap:
		return c.unary(n, shaders.UnaryParams{By: 1, Cap: op.Cap})
	case graph.Act:
		if op.F == graph.Exp {
			return c.p.lacks(lackExp)
		}
		return c.unary(n, shaders.UnaryParams{Func: uint32(op.F), By: 1})
	case graph.Glu:
		q := &shaders.GluParams{Func: uint32(op.F), Limit: op.Limit}
		return c.each("glu", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.value(n.In[1]))
	case graph.Affine:
		q := &shaders.AffineParams{Width: width(0), WLen: length(op.W), BLen: length(op.B)}
		return c.each("affine", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.weight(op.W), c.weight(op.B))
	case graph.Temperature:
		if op.Offset != 0 && c.p.reach() > op.Every-op.Offset {
			return c.p.lacks(lackOffset)
		}
		q := &shaders.TemperatureParams{Width: width(0), Every: uint32(op.Every), Scale: op.Scale}
		return c.each("temperature", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.rows(0))
	case graph.Rope:
		return c.rope(n, op)
	case graph.Slice:
		return c.columns(n, c.value(n.In[0]), shaders.ColumnsParams{
			Width: width(0), Group: uint32(op.Group), First: uint32(op.First), Take: uint32(op.Take), Times: 1,
		})
	case graph.Repeat:
		q := shaders.ColumnsParams{Width: width(0), Group: uint32(op.Group), Take: uint32(op.Group), Times: uint32(op.Times)}
		if op.Tile {
			q.Tile = 1
		}
		return c.columns(n, c.value(n.In[0]), q)
	case graph.Concat:
		q := &shaders.ConcatParams{WidthA: width(0), WidthB: width(1), GroupA: uint32(op.GroupA), GroupB: uint32(op.GroupB)}
		return c.each("concat", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.value(n.In[1]))
	case graph.Gather:
		q := &shaders.GatherParams{Width: width(0)}
		return c.each("gather", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.batch(c.p.image.outputs, c.p.outputs()))
	case graph.Pool:
		q := &shaders.PoolParams{Width: width(0), Kind: uint32(op.Kind)}
		return c.each("pool", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.batch(c.p.image.ends, 2*c.p.image.spans))
	case graph.ExpertSum:
		q := &shaders.ExpertSumParams{Width: uint32(plan.Values[n.Out].Width), Used: uint32(op.Used)}
		return c.each("expert_sum", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.value(n.In[1]))
	case graph.ExpertScale:
		q := &shaders.ExpertScaleParams{Width: width(0) / uint32(op.Used), Used: uint32(op.Used)}
		return c.each("expert_scale", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.value(n.In[1]), c.weight(op.W))
	}
	return c.unsupported(n, dtype.F32)
}

// each adds a launch with one thread per element of the result. It stores the
// number of elements in count.
func (c *compiler) each(kernel string, n graph.Node, params []byte, count *uint32, in ...place) error {
	info := c.p.plan.Values[n.Out]
	group := shaders.Find(kernel).Group
	return c.add(kernel, nil, params, append(in, c.value(n.Out)), func(s *shape) [3]uint32 {
		k := s.of(info.Rows) * info.Width
		*count = uint32(k)
		return threads(k, group)
	})
}

func (c *compiler) unary(n graph.Node, q shaders.UnaryParams) error {
	return c.each("unary", n, shaders.Bytes(&q), &q.Count, c.value(n.In[0]))
}

func (c *compiler) columns(n graph.Node, x place, q shaders.ColumnsParams) error {
	return c.each("columns", n, shaders.Bytes(&q), &q.Count, x)
}

func (c *compiler) binary(n graph.Node, mul uint32) error {
	a, b := c.p.plan.Values[n.In[0]].Width, c.p.plan.Values[n.In[1]].Width
	q := &shaders.BinaryParams{Group: uint32(a / b), Mul: mul}
	return c.each("binary", n, shaders.Bytes(q), &q.Count, c.value(n.In[0]), c.value(n.In[1]))
}

// normOfSum reports whether node i is a sum that the next node normalises, so
// that one launch does both.
func (c *compiler) normOfSum(i int) bool {
	nodes := c.p.plan.Nodes
	if i < 0 || i+1 >= len(nodes) {
		return false
	}
	_, sum := nodes[i].Op.(graph.Add)
	_, norm := nodes[i+1].Op.(graph.Norm)
	return sum && norm && nodes[i+1].In[0] == nodes[i].Out
}

// norm normalises x. If r is given, it normalises x + r, and stores x + r in
// sum.
func (c *compiler) norm(n graph.Node, x, r, sum graph.Value, op graph.Norm) error {
	info := c.p.plan.Values[n.Out]
	q := &shaders.NormParams{
		Width: uint32(info.Width), Group: uint32(op.Group), WLen: length(op.W), BLen: length(op.B),
		Kind: uint32(op.Kind), Eps: op.Eps,
	}
	added, total := c.none(), c.none()
	if r != graph.None {
		q.Add, added, total = 1, c.value(r), c.value(sum)
	}
	args := []place{c.value(x), added, c.weight(op.W), c.weight(op.B), total, c.value(n.Out)}
	return c.add("norm", nil, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
		return [3]uint32{uint32(s.of(info.Rows) * info.Width / op.Group), 1, 1}
	})
}

// rope rotates heads. If there are no frequencies, it copies them.
func (c *compiler) rope(n graph.Node, op graph.Rope) error {
	info := c.p.plan.Values[n.Out]
	w := uint32(info.Width)
	if len(op.Freqs) == 0 {
		return c.columns(n, c.value(n.In[0]), shaders.ColumnsParams{Width: w, Group: w, Take: w, Times: 1})
	}
	freqs, err := c.p.constant(bytesOf(op.Freqs))
	if err != nil {
		return err
	}
	q := &shaders.RopeParams{
		Heads: uint32(info.Width / op.HeadDim), HeadDim: uint32(op.HeadDim), First: uint32(op.First),
		HalfDim: uint32(len(op.Freqs)), Scale: op.Scale,
	}
	if op.Adjacent {
		q.Adjacent = 1
	}
	items := info.Width / op.HeadDim * (op.HeadDim - len(op.Freqs))
	group := shaders.Find("rope").Group
	args := []place{c.value(n.In[0]), c.rows(0), freqs, c.value(n.Out)}
	return c.add("rope", nil, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
		q.Rows = uint32(s.of(info.Rows))
		return threads(s.of(info.Rows)*items, group)
	})
}

// constant returns device memory with the given bytes. Equal constants are
// stored once.
func (p *program) constant(host []byte) (place, error) {
	for _, k := range p.constants {
		if bytes.Equal(k.host, host) {
			return k.place, nil
		}
	}
	b, err := p.dev.Alloc(int64(len(host)), host, "constants")
	if err != nil {
		return place{}, err
	}
	p.buffers = append(p.buffers, b)
	p.used.Scratch += b.Size()
	k := constant{host, place{Bind{b, 0}, b.Size()}}
	p.constants = append(p.constants, k)
	return k.place, nil
}

// constant holds host bytes and their copy on the device.
type constant struct {
	host  []byte
	place place
}
