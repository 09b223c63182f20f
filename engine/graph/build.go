package graph

import "godwit/engine/llm"

// Embed looks up a row of w for each token, including adapters. The adapters of
// an embedding are A [rank, rows] and B [rank, cols].
func (b *Builder) Embed(w *Weight, scale float32, from Lookup) Value {
	if scale == 0 {
		scale = 1
	}
	y := b.add(Embed{w, scale, from}, w.Cols())
	for _, a := range b.adapters[w.Name] {
		if !a.lookup(w) {
			continue
		}
		b.adapted[w.Name] = true
		d := b.Linear(b.Embed(a.A, 1, from), a.B, nil)
		y = b.Add(y, b.Scale(d, a.Scale*scale))
	}
	return y
}

// Input reads rows of the given width from the batch.
func (b *Builder) Input(width int) Value {
	if b.err != nil {
		return 0
	}
	return b.addRows(Input{}, Info{Width: width})
}

// Linear computes x·wᵀ + bias, including the scale and the adapters of w.
func (b *Builder) Linear(x Value, w, bias *Weight) Value {
	if b.Width(x) != w.Cols() && b.err == nil {
		return b.fail("linear", "%s takes %d columns, given %d", w.Name, w.Cols(), b.Width(x))
	}
	if bias != nil && bias.Elems() != w.Rows() {
		return b.fail("linear", "%s has %d rows, %s %d values", w.Name, w.Rows(), bias.Name, bias.Elems())
	}
	var y Value
	if w.Scale != nil {
		y = b.Affine(b.add(Linear{W: w}, w.Rows(), x), w.Scale, bias)
	} else {
		y = b.add(Linear{w, bias}, w.Rows(), x)
	}
	for _, a := range b.adapters[w.Name] {
		if a.lookup(w) {
			continue // an embedding's adapter does not apply to the output matrix that shares its weight
		}
		if a.A.Cols() != w.Cols() || a.A.Rows() != a.B.Cols() || a.B.Rows() != w.Rows() {
			return b.fail("adapter", "%s: %v and %v on %v", w.Name, a.A.Shape, a.B.Shape, w.Shape)
		}
		b.adapted[w.Name] = true
		d := b.Linear(b.Linear(x, a.A, nil), a.B, nil)
		y = b.Add(y, b.Scale(d, a.Scale))
	}
	return y
}

// HeadLinear multiplies each head of x by its own matrix of w [in, out, heads].
func (b *Builder) HeadLinear(x Value, w *Weight) Value {
	if b.Width(x) != w.Cols()*w.Mats() && b.err == nil {
		return b.fail("head linear", "%s takes %d·%d columns, given %d", w.Name, w.Mats(), w.Cols(), b.Width(x))
	}
	return b.add(HeadLinear{w}, w.Rows()*w.Mats(), x)
}

// Norm normalises each group of columns. group is the number of columns, 0 for the
// whole row.
func (b *Builder) Norm(x Value, kind NormKind, w, bias *Weight, eps float32, group int) Value {
	width := b.Width(x)
	if group == 0 {
		group = width
	}
	if b.err == nil && width%group != 0 {
		return b.fail("norm", "groups of %d in %d columns", group, width)
	}
	for _, p := range []*Weight{w, bias} {
		if p != nil && b.err == nil && p.Elems() != group && p.Elems() != width {
			return b.fail("norm", "%s has %d values for groups of %d in %d columns", p.Name, p.Elems(), group, width)
		}
	}
	return b.add(Norm{kind, w, bias, eps, group}, width, x)
}

// RMSNorm is Norm over the whole row.
func (b *Builder) RMSNorm(x Value, w *Weight, eps float32) Value {
	return b.Norm(x, RMS, w, nil, eps, 0)
}

// Affine computes x·w + bias with repeating vectors. Either vector may be nil.
func (b *Builder) Affine(x Value, w, bias *Weight) Value {
	for _, p := range []*Weight{w, bias} {
		if p != nil && b.err == nil && b.Width(x)%p.Elems() != 0 {
			return b.fail("affine", "%s has %d values for %d columns", p.Name, p.Elems(), b.Width(x))
		}
	}
	return b.add(Affine{w, bias}, b.Width(x), x)
}

// Rope rotates each head of x.
func (b *Builder) Rope(x Value, r Rope) Value {
	w := b.Width(x)
	if b.err == nil && (r.HeadDim <= 0 || w%r.HeadDim != 0 || r.First < 0 || r.First+2*len(r.Freqs) > r.HeadDim) {
		return b.fail("rope", "%d+%d of heads of %d in %d columns", r.First, 2*len(r.Freqs), r.HeadDim, w)
	}
	if b.err == nil && r.Axes != nil && len(r.Axes) != len(r.Freqs) {
		return b.fail("rope", "axes of %d of %d pairs", len(r.Axes), len(r.Freqs))
	}
	for _, a := range r.Axes {
		if b.err == nil && int(a) >= len(llm.Coord{}) {
			return b.fail("rope", "axis %d of %d", a, len(llm.Coord{}))
		}
	}
	return b.add(r, w, x)
}

// Temperature scales queries up with their position. A zero Scale leaves x
// unchanged.
func (b *Builder) Temperature(x Value, t Temperature) Value {
	if t.Scale == 0 {
		return x
	}
	if b.err == nil && t.Every < 1 {
		return b.fail("temperature", "a step every %d positions", t.Every)
	}
	return b.add(t, b.Width(x), x)
}

// Attend appends k and v to the cache and attends from q.
// The result is [heads·DimV].
func (b *Builder) Attend(q, k, v Value, a Attention) Value {
	ok := a.KVHeads > 0 && a.Heads%a.KVHeads == 0 && b.Width(q) == a.Heads*a.DimK &&
		(k == None || b.Width(k) == a.KVHeads*a.DimK) &&
		(v == None || b.Width(v) == a.KVHeads*a.DimV)
	if b.err == nil && !ok {
		return b.fail("attend", "layer %d: q %d, k %d, v %d columns for %d and %d heads of %d and %d",
			a.Layer, b.Width(q), b.Width(k), b.Width(v), a.Heads, a.KVHeads, a.DimK, a.DimV)
	}
	if r := a.Bias.Relative; r != nil && (r.Cols() != a.Heads || r.Rows() < 4) {
		return b.fail("attend", "%s is %v for %d heads", r.Name, r.Shape, a.Heads)
	}
	if a.SinkLogits != nil && a.SinkLogits.Elems() != a.Heads {
		return b.fail("attend", "%s has %d values for %d heads", a.SinkLogits.Name, a.SinkLogits.Elems(), a.Heads)
	}
	return b.add(Attend{a}, a.Heads*a.DimV, q, k, v)
}

// SelfAttend attends within the batch.
func (b *Builder) SelfAttend(q, k, v Value, a SelfAttend) Value {
	w := a.Heads * a.Dim
	if b.err == nil && (w <= 0 || b.Width(q) != w || b.Width(k) != w || b.Width(v) != w) {
		return b.fail("self attend", "q %d, k %d, v %d columns for %d heads of %d", b.Width(q), b.Width(k), b.Width(v), a.Heads, a.Dim)
	}
	return b.add(a, w, q, k, v)
}

// Merge joins the given number of adjacent rows into one output row. With mean
// it computes their mean.
func (b *Builder) Merge(x Value, rows int, mean bool) Value {
	if b.err != nil {
		return 0
	}
	if rows < 1 || rows > maxWidth || b.plan.Values[x].Rows != BatchRows {
		return b.fail("merge", "%d rows of value %d", rows, x)
	}
	w := b.Width(x)
	if !mean {
		w *= rows
	}
	return b.addRows(Merge{rows, mean}, Info{w, OutputRows}, x)
}

// Clamp bounds every element of x.
func (b *Builder) Clamp(x Value, low, high float32) Value {
	if b.err == nil && !(low <= high) {
		return b.fail("clamp", "%g to %g", low, high)
	}
	return b.add(Clamp{low, high}, b.Width(x), x)
}

// Supplied puts the embeddings that the batch supplies into x.
func (b *Builder) Supplied(x Value, part int, add bool) Value {
	if b.err == nil && b.plan.Values[x].Rows != BatchRows {
		return b.fail("supplied", "output rows only of value %d", x)
	}
	return b.add(Supplied{part, add}, b.Width(x), x)
}

// Add computes x + y.
func (b *Builder) Add(x, y Value) Value {
	if b.err == nil && b.Width(x) != b.Width(y) {
		return b.fail("add", "%d and %d columns", b.Width(x), b.Width(y))
	}
	return b.add(Add{}, b.Width(x), x, y)
}

// Mul multiplies x by y. If y is narrower, each column of y scales a group of
// width(x)/width(y) columns.
func (b *Builder) Mul(x, y Value) Value {
	if b.err == nil && b.Width(x)%b.Width(y) != 0 {
		return b.fail("mul", "%d and %d columns", b.Width(x), b.Width(y))
	}
	return b.add(Mul{}, b.Width(x), x, y)
}

// Scale multiplies x by a constant.
func (b *Builder) Scale(x Value, by float32) Value {
	if by == 1 {
		return x
	}
	return b.add(Scale{by}, b.Width(x), x)
}

// Softcap bounds x to (-limit, limit) by tanh. A limit of 0 leaves x unchanged.
func (b *Builder) Softcap(x Value, limit float32) Value {
	if limit == 0 {
		return x
	}
	return b.add(Softcap{limit}, b.Width(x), x)
}

// Act applies f to every element.
func (b *Builder) Act(x Value, f Func) Value { return b.add(Act{f}, b.Width(x), x) }

// Glu computes f(gate)·up.
func (b *Builder) Glu(gate, up Value, f Func, limit float32) Value {
	if b.err == nil && b.Width(gate) != b.Width(up) {
		return b.fail("glu", "%d and %d columns", b.Width(gate), b.Width(up))
	}
	return b.add(Glu{f, limit}, b.Width(gate), gate, up)
}

// Slice takes columns [first, first+take) of every group of columns. group is the
// number of columns in a group, 0 for the whole row.
func (b *Builder) Slice(x Value, group, first, take int) Value {
	w := b.Width(x)
	if group == 0 {
		group = w
	}
	if b.err == nil && (group <= 0 || w%group != 0 || first < 0 || take <= 0 || first+take > group) {
		return b.fail("slice", "[%d, %d) of groups of %d in %d columns", first, first+take, group, w)
	}
	if b.err != nil {
		return 0
	}
	return b.add(Slice{group, first, take}, w/group*take, x)
}

// Concat joins groups of x and y. An operand with a single group is repeated.
func (b *Builder) Concat(x, y Value, groupX, groupY int) Value {
	if b.err != nil {
		return 0
	}
	if groupX <= 0 || groupY <= 0 || b.Width(x)%groupX != 0 || b.Width(y)%groupY != 0 {
		return b.fail("concat", "groups of %d and %d in %d and %d columns", groupX, groupY, b.Width(x), b.Width(y))
	}
	nx, ny := b.Width(x)/groupX, b.Width(y)/groupY
	if nx != ny && nx != 1 && ny != 1 {
		return b.fail("concat", "%d and %d groups", nx, ny)
	}
	return b.add(Concat{groupX, groupY}, max(nx, ny)*(groupX+groupY), x, y)
}

// Repeat repeats groups of columns.
func (b *Builder) Repeat(x Value, group, times int, tile bool) Value {
	if b.err == nil && (group <= 0 || b.Width(x)%group != 0) {
		return b.fail("repeat", "groups of %d in %d columns", group, b.Width(x))
	}
	if times == 1 {
		return x
	}
	return b.add(Repeat{group, times, tile}, b.Width(x)*times, x)
}

// Gather keeps the output rows.
func (b *Builder) Gather(x Value) Value {
	if b.err != nil {
		return 0
	}
	return b.addRows(Gather{}, Info{b.Width(x), OutputRows}, x)
}

// Pool reduces each sequence of the batch to one output row.
func (b *Builder) Pool(x Value, kind PoolKind) Value {
	if b.err != nil {
		return 0
	}
	return b.addRows(Pool{kind}, Info{b.Width(x), OutputRows}, x)
}

// Route chooses experts from router logits. The result is [2·used].
func (b *Builder) Route(logits Value, r Routing) Value {
	if b.err == nil && (b.Width(logits) != r.Experts || r.Used < 1 || r.Used > r.Experts) {
		return b.fail("route", "%d of %d experts from %d logits", r.Used, r.Experts, b.Width(logits))
	}
	if r.Bias != nil && r.Bias.Elems() != r.Experts {
		return b.fail("route", "%s has %d values for %d experts", r.Bias.Name, r.Bias.Elems(), r.Experts)
	}
	if r.Groups > 0 && (r.Experts%r.Groups != 0 || r.UsedGroups < 1 || r.UsedGroups > r.Groups) {
		return b.fail("route", "%d of %d groups of %d experts", r.UsedGroups, r.Groups, r.Experts)
	}
	if r.Groups > 0 && r.Experts/r.Groups*r.UsedGroups < r.Used {
		return b.fail("route", "%d experts in %d of %d groups of %d", r.Used, r.UsedGroups, r.Groups, r.Experts)
	}
	if r.Scale == 0 {
		r.Scale = 1
	}
	r.Share = max(r.Share, 1)
	return b.add(Route{r}, 2*r.Used, logits)
}

// ExpertLinear applies the chosen matrices of w [cols, rows, experts],
// including the scale and the adapters of w.
func (b *Builder) ExpertLinear(x, route Value, w, bias *Weight) Value {
	used := b.Width(route) / 2
	if b.err == nil && b.Width(x) != w.Cols() && b.Width(x) != used*w.Cols() {
		return b.fail("expert linear", "%s takes %d columns, given %d for %d experts", w.Name, w.Cols(), b.Width(x), used)
	}
	if bias != nil && (bias.Cols() != w.Rows() || bias.Elems() != w.Rows()*w.Mats()) {
		return b.fail("expert linear", "%s is %v for %v", bias.Name, bias.Shape, w.Shape)
	}
	if bias != nil && w.Scale != nil {
		return b.fail("expert linear", "%s has both a scale and a bias", w.Name)
	}
	y := b.add(ExpertLinear{w, bias}, used*w.Rows(), x, route)
	switch {
	case w.Scale == nil:
	case w.Scale.Elems() == 1:
		y = b.Affine(y, w.Scale, nil)
	default:
		y = b.ExpertScale(y, route, w.Scale)
	}
	for _, a := range b.adapters[w.Name] {
		if a.A.Cols() != w.Cols() || a.A.Rows() != a.B.Cols() || a.B.Rows() != w.Rows() || a.A.Mats() != w.Mats() || a.B.Mats() != w.Mats() {
			return b.fail("adapter", "%s: %v and %v on %v", w.Name, a.A.Shape, a.B.Shape, w.Shape)
		}
		b.adapted[w.Name] = true
		d := b.ExpertLinear(b.ExpertLinear(x, route, a.A, nil), route, a.B, nil)
		y = b.Add(y, b.Scale(d, a.Scale))
	}
	return y
}

// ExpertScale multiplies each chosen expert's part of x by w[id].
func (b *Builder) ExpertScale(x, route Value, w *Weight) Value {
	if b.err == nil && b.Width(x)%(b.Width(route)/2) != 0 {
		return b.fail("expert scale", "%d experts in %d columns", b.Width(route)/2, b.Width(x))
	}
	return b.add(ExpertScale{w, b.Width(route) / 2}, b.Width(x), x, route)
}

// ExpertSum returns the sum of the experts' parts of x, weighted by route.
func (b *Builder) ExpertSum(x, route Value) Value {
	used := b.Width(route) / 2
	if b.err != nil {
		return 0
	}
	if b.Width(x)%used != 0 {
		return b.fail("expert sum", "%d experts in %d columns", used, b.Width(x))
	}
	return b.add(ExpertSum{used}, b.Width(x)/used, x, route)
}

// ShortConv convolves along the sequence, with one filter of w [kernel, width]
// per column.
func (b *Builder) ShortConv(x Value, layer int, w, bias *Weight, f Func) Value {
	if b.err == nil && (w.Elems() != w.Cols()*b.Width(x) || w.Cols() < 1) {
		return b.fail("short convolution", "%s is %v for %d columns", w.Name, w.Shape, b.Width(x))
	}
	st := b.state(layer, (w.Cols()-1)*b.Width(x))
	return b.add(ShortConv{w, bias, f, st}, b.Width(x), x)
}

// DeltaNet runs the gated delta rule. It sets d.State.
func (b *Builder) DeltaNet(q, k, v, g, beta Value, layer int, d DeltaNet) Value {
	if b.err != nil {
		return 0
	}
	if b.Width(q) != d.KeyHeads*d.KeyDim || b.Width(k) != b.Width(q) || b.Width(v) != d.ValueHeads*d.ValueDim ||
		b.Width(g) != d.ValueHeads || b.Width(beta) != d.ValueHeads || d.ValueHeads%d.KeyHeads != 0 {
		return b.fail("delta net", "q %d, k %d, v %d, g %d, beta %d columns; want %d key heads of %d and %d value heads of %d",
			b.Width(q), b.Width(k), b.Width(v), b.Width(g), b.Width(beta), d.KeyHeads, d.KeyDim, d.ValueHeads, d.ValueDim)
	}
	d.State = b.state(layer, d.ValueHeads*d.KeyDim*d.ValueDim)
	return b.add(d, b.Width(v), q, k, v, g, beta)
}
