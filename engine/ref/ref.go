// Package ref is the oracle. It runs plans in float64, with one function per
// op. Each function is written from its formula and shares no arithmetic with
// any backend. The package is slow, keeps everything in memory, and is only
// imported by tests.
//
// Keys and values pass through the cache type's own Encode and Decode, so a
// comparison with a backend tests arithmetic, not formats.
//
// The glossary in package kv defines the terms used here.
package ref

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"godwit/engine/dtype"
	"godwit/engine/graph"
	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/quant"
)

// Machine runs one plan.
type Machine struct {
	plan    *graph.Plan
	layout  *layout.Layout
	weights map[*graph.Weight][]float64
	cells   map[cell][]float64 // decoded rows with all KV heads
	keys    map[cell][]float64 // for types with a residual: vectors whose product with a query is the score
	units   map[head][]prepared
	states  map[state][]float64
	rows    Rows
}

type cell struct {
	seq   llm.Seq
	layer int
	side  kv.Side
	pos   int
	tier  layout.Tier
}

// head is a cache type with a head size.
type head struct {
	t   *kv.Type
	dim int
}

// prepared is a query in the rotated domain, with the second vector for
// residuals.
type prepared struct{ q, res []float32 }

type state struct {
	seq llm.Seq
	id  int
}

// Rows caches the decoded rows of heads, so that each is computed once.
type Rows map[given]returned

// given is a row and its type. The field at matters only for types that store it.
type given struct {
	t      *kv.Type
	at     kv.At
	values string // bytes of the row
}

// returned is a row as its type decodes it. For a type with a residual, key is
// the vector whose product with a query is the score.
type returned struct{ row, key []float64 }

// New returns a machine whose cache stores rows in the types of the layout. If
// the layout is nil, it stores them exactly.
func New(p *graph.Plan, l *layout.Layout) *Machine { return NewSharing(p, l, Rows{}) }

// NewSharing returns a machine like New. Several machines that store the same
// rows can share r.
func NewSharing(p *graph.Plan, l *layout.Layout, r Rows) *Machine {
	return &Machine{
		plan: p, layout: l, rows: r,
		weights: make(map[*graph.Weight][]float64),
		cells:   make(map[cell][]float64),
		keys:    make(map[cell][]float64),
		units:   make(map[head][]prepared),
		states:  make(map[state][]float64),
	}
}

// Run executes one batch and returns the output rows.
func (m *Machine) Run(b *llm.Batch) [][]float64 {
	vals := make([][][]float64, len(m.plan.Values))
	for _, n := range m.plan.Nodes {
		in := make([][][]float64, len(n.In))
		for i, v := range n.In {
			if v != graph.None {
				in[i] = vals[v]
			}
		}
		vals[n.Out] = m.node(n.Op, in, b)
	}
	return vals[m.plan.Output]
}

// weight decodes a weight once. It returns nil for nil.
func (m *Machine) weight(w *graph.Weight) []float64 {
	if w == nil {
		return nil
	}
	if f, ok := m.weights[w]; ok {
		return f
	}
	f32 := make([]float32, w.Elems())
	if err := quant.Decode(w.Type, f32, w.Data); err != nil {
		panic(fmt.Sprintf("ref: %s: %v", w.Name, err))
	}
	f := widen(f32)
	m.weights[w] = f
	return f
}

func widen(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func narrow(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// node runs one op on all rows.
func (m *Machine) node(op graph.Op, in [][][]float64, b *llm.Batch) [][]float64 {
	switch op := op.(type) {
	case graph.Input:
		return input(b)
	case graph.Embed:
		return m.embed(op, b)
	case graph.Attend:
		return m.attend(op.Attention, in, b)
	case graph.Index:
		return m.index(op, in, b)
	case graph.ShortConv:
		return m.shortConv(op, in[0], b)
	case graph.DeltaNet:
		return m.deltaNet(op, in, b)
	case graph.Scan:
		return m.scan(op, in, b)
	case graph.Recur:
		return m.recur(op, in, b)
	case graph.Gather:
		var out [][]float64
		for _, r := range b.Outputs {
			out = append(out, in[0][r])
		}
		return out
	case graph.Pool:
		return pool(op, in[0], b)
	case graph.SelfAttend:
		return selfAttend(op, in, b)
	case graph.Merge:
		return merge(op, in[0], b)
	case graph.Supplied:
		return supplied(op, in[0], b)
	}
	var out [][]float64
	for r := range in[0] {
		row := make([][]float64, len(in))
		for i := range in {
			if in[i] != nil {
				row[i] = in[i][r]
			}
		}
		pos := 0
		if r < len(b.Pos) {
			pos = int(b.Pos[r])
		}
		if t, ok := op.(graph.Rope); ok && t.Axes != nil && r < len(b.Coords) {
			out = append(out, rope(t, row[0], func(pair int) int { return int(b.Coords[r][t.Axes[pair]]) }))
			continue
		}
		out = append(out, m.rowWise(op, row, pos))
	}
	return out
}

func (m *Machine) embed(op graph.Embed, b *llm.Batch) [][]float64 {
	w, n := m.weight(op.W), op.W.Cols()
	scale := float64(op.Scale)
	if scale == 0 {
		scale = 1
	}
	var out [][]float64
	for r, tok := range b.Tokens {
		id := 0
		switch op.From {
		case graph.ByToken:
			id = max(int(tok), 0)
		case graph.ByPosition:
			id = int(b.Pos[r])
		}
		row := make([]float64, n)
		for i := range row {
			row[i] = w[id*n+i] * scale
		}
		out = append(out, row)
	}
	return out
}

func input(b *llm.Batch) [][]float64 {
	width := len(b.Input) / len(b.Tokens)
	var out [][]float64
	for r := range b.Tokens {
		out = append(out, widen(b.Input[r*width:(r+1)*width]))
	}
	return out
}

func pool(op graph.Pool, x [][]float64, b *llm.Batch) [][]float64 {
	var out [][]float64
	for _, s := range b.Spans {
		rows := x[s.First : s.First+s.Rows]
		y := make([]float64, len(rows[0]))
		switch op.Kind {
		case graph.PoolFirst:
			copy(y, rows[0])
		case graph.PoolLast:
			copy(y, rows[len(rows)-1])
		case graph.PoolMean:
			for _, r := range rows {
				for i, v := range r {
					y[i] += v / float64(len(rows))
				}
			}
		}
		out = append(out, y)
	}
	return out
}

// attend stores k and v, then computes softmax(scale·QKᵀ)V row by row.
func (m *Machine) attend(a graph.Attention, in [][][]float64, b *llm.Batch) [][]float64 {
	own := a.Layer
	if in[1] == nil {
		own = a.Share
	}
	for _, s := range b.Spans {
		for r := s.First; r < s.First+s.Rows && in[1] != nil; r++ {
			m.store(s.Seq, own, kv.K, int(b.Pos[r]), in[1][r], a.DimK, a.RopeBase)
			if in[2] != nil {
				m.store(s.Seq, own, kv.V, int(b.Pos[r]), in[2][r], a.DimV, a.RopeBase)
			}
		}
	}
	out := make([][]float64, len(b.Tokens))
	for _, s := range b.Spans {
		for r := s.First; r < s.First+s.Rows; r++ {
			tile := 0
			if b.Sees != nil {
				tile = int(b.Sees[r])
			}
			for h := range a.Heads {
				q := in[0][r][h*a.DimK : (h+1)*a.DimK]
				var chosen []float64
				if len(in) > 3 {
					chosen = in[3][r]
				}
				out[r] = append(out[r], m.head(a, own, s, q, chosen, h, int(b.Pos[r]), tile)...)
			}
		}
	}
	return out
}

// store stores a row in every tier of its layout. Tiers that are packed by page
// are packed from their exact form.
func (m *Machine) store(seq llm.Seq, layer int, side kv.Side, pos int, x []float64, dim int, base float32) {
	if m.layout == nil {
		m.put(cell{seq, layer, side, pos, layout.Packed}, nil, x, dim, base)
		return
	}
	l := m.layout.Layers[layer].Side(side)
	for _, tier := range []layout.Tier{layout.Pinned, layout.Exact, layout.Packed} {
		if t := l.Form(tier); t != nil {
			back := m.put(cell{seq, layer, side, pos, tier}, t, x, dim, base)
			if tier == layout.Exact && l.PackedByPage() {
				x = back
			}
		}
	}
}

// put stores a row in type t and returns the decoded row. If t is nil, it
// stores the row exactly.
func (m *Machine) put(at cell, t *kv.Type, x []float64, dim int, base float32) []float64 {
	row := append([]float64(nil), x...)
	if t != nil {
		pos, side := at.pos, at.side
		var keys []float64
		row = row[:0]
		for h := 0; h < len(x); h += dim {
			back := m.through(t, x[h:h+dim], kv.At{Pos: pos, RopeBase: base})
			row = append(row, back.row...)
			if side == kv.K {
				keys = append(keys, back.key...)
			}
		}
		if keys != nil {
			m.keys[at] = keys
		}
	}
	m.cells[at] = row
	return row
}

// through encodes the row of one head in a type and decodes it.
func (m *Machine) through(t *kv.Type, x []float64, at kv.At) returned {
	if t.Polar == nil {
		at = kv.At{}
	}
	values := make([]byte, 0, 4*len(x))
	src := narrow(x)
	for _, v := range src {
		values = binary.LittleEndian.AppendUint32(values, math.Float32bits(v))
	}
	id := given{t, at, string(values)}
	r, ok := m.rows[id]
	if ok {
		return r
	}
	buf, back := make([]byte, t.RowBytes(len(x))), make([]float32, len(x))
	t.Encode(buf, src, at)
	t.Decode(back, buf, at)
	r.row = widen(back)
	if t.HasResidual() {
		r.key = m.key(t, buf, len(x))
	}
	m.rows[id] = r
	return r
}

// tier returns the tier in which a row at pos reads position p. A pinned position
// is always read from the pinned tier. Pages that are exact for pos (see
// FirstExact) are read in exact form. Source: spec gw-formats.md "Window and sinks,
// exactly".
func (m *Machine) tier(layer int, side kv.Side, p, pos int) layout.Tier {
	if m.layout == nil {
		return layout.Packed
	}
	y := &m.layout.Layers[layer]
	s := y.Side(side)
	switch {
	case s.Pinned != nil && p < y.Exact.Pinned:
		return layout.Pinned
	case s.Exact != nil && p/kv.PageCells >= y.Exact.FirstExact(pos):
		return layout.Exact
	}
	return layout.Packed
}

// key returns the vector whose product with a query is the score of a packed
// key with a residual. Scores are linear in the query, so value i is the score
// of the i-th unit vector. Source: spec kv-formats.md section 6.
func (m *Machine) key(t *kv.Type, row []byte, dim int) []float64 {
	levels := make([]float32, t.Padded(dim))
	t.DecodeRotated(levels, row)
	out := make([]float64, dim)
	for i, u := range m.unitVectors(t, dim) {
		for j, v := range levels {
			out[i] += float64(u.q[j]) * float64(v)
		}
		for _, g := range t.Segments(dim) {
			out[i] += signs(g, u.res[g.Lane:], row[g.At:])
		}
	}
	return out
}

// unitVectors returns the unit vectors as queries, prepared for keys of a type.
func (m *Machine) unitVectors(t *kv.Type, dim int) []prepared {
	list := m.units[head{t, dim}]
	if list != nil {
		return list
	}
	for i := range dim {
		x := make([]float32, dim)
		x[i] = 1
		u := prepared{make([]float32, t.Padded(dim)), make([]float32, t.Padded(dim))}
		t.RotateQuery(u.q, u.res, x)
		list = append(list, u)
	}
	m.units[head{t, dim}] = list
	return list
}

// signs returns the part of a segment's score that comes from the residual.
func signs(g kv.Segment, res []float32, row []byte) (sum float64) {
	r := g.Form.Residual
	if r == nil || r.Factor == 0 {
		return 0
	}
	for b := range g.Blocks {
		block := row[b*g.Form.Bytes:]
		d := float64(dtype.F16ToF32(binary.LittleEndian.Uint16(block[r.At:])))
		for i := range g.Form.Elems {
			v := d * float64(res[b*g.Form.Elems+i])
			if block[r.Bits+i/8]>>(i%8)&1 == 0 {
				v = -v
			}
			sum += v
		}
	}
	return sum
}

// head computes the attention of one query head of one row.
func (m *Machine) head(a graph.Attention, layer int, s llm.Span, q, chosen []float64, h, pos, tile int) []float64 {
	kvHead := h / (a.Heads / a.KVHeads)
	lo, hi := sees(a, pos, s.Len)
	temper := 1.0
	if m.layout != nil {
		temper = float64(m.layout.Layers[layer].Temper.Factor(hi - lo))
	}
	if a.Tiles {
		hi = max(hi, tile)
	}
	scores := make([]float64, 0, hi-lo)
	top := math.Inf(-1)
	for p := lo; p < hi; p++ {
		if chosen != nil && !slices.Contains(chosen, float64(p)) {
			scores = append(scores, math.Inf(-1))
			continue
		}
		at := cell{s.Seq, layer, kv.K, p, m.tier(layer, kv.K, p, pos)}
		k, ok := m.keys[at]
		if !ok {
			k = m.cells[at]
		}
		k = k[kvHead*a.DimK:]
		var dot float64
		for i, v := range q {
			dot += v * k[i]
		}
		dot *= float64(a.Scale)
		if a.Softcap > 0 {
			dot = float64(a.Softcap) * math.Tanh(dot/float64(a.Softcap))
		}
		dot = (dot + m.bias(a, h, p-pos)) * temper
		scores = append(scores, dot)
		top = math.Max(top, dot)
	}
	var sum float64
	if a.SinkLogits != nil {
		logit := m.weight(a.SinkLogits)[h]
		top = math.Max(top, logit)
		sum = math.Exp(logit - top)
	}
	out := make([]float64, a.DimV)
	for i, sc := range scores {
		w := math.Exp(sc - top)
		sum += w
		side, dim := kv.V, a.DimV
		if a.MLA {
			side, dim = kv.K, a.DimK
		}
		v := m.cells[cell{s.Seq, layer, side, lo + i, m.tier(layer, side, lo+i, pos)}][kvHead*dim:]
		for j := range out {
			out[j] += w * v[j]
		}
	}
	for j := range out {
		out[j] /= sum
	}
	return out
}
