package gpu

import (
	"fmt"
	"slices"

	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/quant"
	"godwit/shaders"
)

const (
	// maxDecode is the maximum number of rows of a decode step. These rows are
	// multiplied as vectors.
	maxDecode = 16
	// matvecRows is the maximum number of rows of one matrix-vector product.
	matvecRows = 8
)

// consts returns the constants of a kernel for a weight type.
func (c *compiler) consts(n graph.Node, w *graph.Weight) (shaders.Constants, error) {
	if !shaders.Weight(w.Type) {
		return nil, fmt.Errorf("%s: %w", w.Name, c.unsupported(n, w.Type))
	}
	return shaders.Constants{"WEIGHT": int(w.Type)}, nil
}

// grid returns the codebook of a format on the device. For formats without a
// codebook, it returns a buffer that kernels do not read.
func (c *compiler) grid(t dtype.Type) (place, error) {
	points, _ := quant.Grid(t)
	if points == nil {
		return c.none(), nil
	}
	return c.p.constant(bytesOf(points))
}

func (c *compiler) embed(n graph.Node, op graph.Embed) error {
	consts, err := c.consts(n, op.W)
	if err != nil {
		return err
	}
	q := &shaders.EmbedParams{
		Cols: uint32(op.W.Cols()), Rows: uint32(op.W.Rows()), RowBytes: uint32(op.W.Type.RowBytes(op.W.Cols())), Scale: op.Scale,
	}
	m := c.p.image
	ids := c.batch(m.tokens, c.p.capacity())
	switch op.From {
	case graph.ByPosition:
		ids = c.batch(m.places, c.p.capacity())
	case graph.ByZero:
		q.Rows = 1
	}
	grid, err := c.grid(op.W.Type)
	if err != nil {
		return err
	}
	group := shaders.Find("embed").Group
	return c.add("embed", consts, shaders.Bytes(q), []place{c.weight(op.W), ids, grid, c.value(n.Out)}, func(s *shape) [3]uint32 {
		q.Count = uint32(s.rows)
		return threads(s.rows*((op.W.Cols()+7)/8), group)
	})
}

// linear multiplies each row by a matrix. Decode steps and output rows use
// matrix-vector products, whatever the number of rows. Other rows use a matrix
// product.
func (c *compiler) linear(n graph.Node, op graph.Linear) error {
	base, err := c.consts(n, op.W)
	if err != nil {
		return err
	}
	set := c.p.plan.Values[n.Out].Rows
	grid, err := c.grid(op.W.Type)
	if err != nil {
		return err
	}
	args := []place{c.weight(op.W), c.value(n.In[0]), c.weight(op.Bias), grid, c.value(n.Out)}
	cols, rows := op.W.Cols(), op.W.Rows()
	most := c.p.capacity()
	if set == graph.OutputRows {
		most = c.p.outputs()
	}
	for k := 1; k <= min(matvecRows, most); k *= 2 {
		q := &shaders.MatvecParams{Cols: uint32(cols), Rows: uint32(rows), RowBytes: uint32(op.W.Type.RowBytes(cols)), Bias: present(op.Bias)}
		consts := shaders.Constants{"WEIGHT": base["WEIGHT"], "ROWS": k}
		err := c.add("matvec", consts, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
			n := s.of(set)
			if !s.vectors(set) || min(padded(n), matvecRows) != k {
				return [3]uint32{}
			}
			q.Batch = uint32(n)
			return [3]uint32{uint32((rows + 3) / 4), uint32((n + k - 1) / k), 1}
		})
		if err != nil {
			return err
		}
	}
	if set == graph.OutputRows {
		return nil
	}
	q := &shaders.MatmulParams{Cols: uint32(cols), Rows: uint32(rows), RowBytes: uint32(op.W.Type.RowBytes(cols)), Bias: present(op.Bias)}
	consts := shaders.Constants{"WEIGHT": base["WEIGHT"], "MMA": 0}
	if d, ok := c.p.dev.(Multiplier); ok {
		consts["MMA"] = d.MMA()
	}
	return c.add("matmul", consts, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
		if s.vectors(set) {
			return [3]uint32{}
		}
		q.Batch = uint32(s.rows)
		return [3]uint32{uint32((rows + 63) / 64), uint32((s.rows + 31) / 32), 1}
	})
}

// vectors reports whether rows of a set are multiplied one by one.
func (s *shape) vectors(set graph.RowSet) bool { return s.decode || set == graph.OutputRows }

func present(w *graph.Weight) uint32 {
	if w == nil {
		return 0
	}
	return 1
}

// headLinear multiplies each head by its own matrix.
func (c *compiler) headLinear(n graph.Node, op graph.HeadLinear) error {
	return c.expert(n, op.W, nil, c.none(), shaders.ExpertParams{Used: uint32(op.W.Mats()), PerSlot: 1})
}

// expertLinear multiplies by the chosen experts' matrices.
func (c *compiler) expertLinear(n graph.Node, op graph.ExpertLinear) error {
	values := c.p.plan.Values
	q := shaders.ExpertParams{Used: uint32(values[n.In[1]].Width / 2), ByRoute: 1, Bias: present(op.Bias)}
	if values[n.In[0]].Width != op.W.Cols() {
		q.PerSlot = 1
	}
	return c.expert(n, op.W, op.Bias, c.value(n.In[1]), q)
}

func (c *compiler) expert(n graph.Node, w, bias *graph.Weight, route place, params shaders.ExpertParams) error {
	consts, err := c.consts(n, w)
	if err != nil {
		return err
	}
	consts["ROWS"] = 1
	q := &params
	q.Cols, q.Rows, q.RowBytes = uint32(w.Cols()), uint32(w.Rows()), uint32(w.Type.RowBytes(w.Cols()))
	set := c.p.plan.Values[n.Out].Rows
	grid, err := c.grid(w.Type)
	if err != nil {
		return err
	}
	args := []place{c.weight(w), c.value(n.In[0]), route, c.weight(bias), grid, c.value(n.Out)}
	return c.add("expert", consts, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
		return [3]uint32{(q.Rows + 3) / 4, uint32(s.of(set)) * q.Used, 1}
	})
}

// route chooses experts.
func (c *compiler) route(n graph.Node, r graph.Routing) error {
	q := &shaders.RouteParams{
		Experts: uint32(r.Experts), Used: uint32(r.Used), Gating: uint32(r.Gating), Scale: r.Scale,
		Groups: uint32(r.Groups), UsedGroups: uint32(r.UsedGroups), Bias: present(r.Bias),
	}
	if r.Share > 1 {
		return c.p.lacks(lackShare)
	}
	if r.Normalise {
		q.Normalise = 1
	}
	most := slices.IndexFunc(shaders.RouteExperts, func(most int) bool { return r.Experts <= most })
	if most < 0 {
		return fmt.Errorf("%d experts: %w", r.Experts, c.unsupported(n, dtype.F32))
	}
	set := c.p.plan.Values[n.Out].Rows
	args := []place{c.value(n.In[0]), c.weight(r.Bias), c.value(n.Out)}
	return c.add("route", shaders.Constants{"EXPERTS": shaders.RouteExperts[most]}, shaders.Bytes(q), args, func(s *shape) [3]uint32 {
		return [3]uint32{uint32(s.of(set)), 1, 1}
	})
}
