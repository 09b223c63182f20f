package graph

// Index chooses for each row the positions that a later Attend reads. Operands: q
// [heads·dim], k [dim], which is stored in the cache of Layer, and the weights of the
// heads [heads]. A position's score is Σ weight_h·relu(q_h·k). The result is the Top
// best positions that Attention sees, as floats, padded with -1. Source: arXiv
// 2512.02556.
type Index struct {
	Attention
	Top int
}

func (Index) op() {}

// Index chooses positions by keys of its own. It sets MLA, because these keys have
// no values.
func (b *Builder) Index(q, k, weights Value, a Attention, top int) Value {
	if b.err == nil && (b.Width(q) != a.Heads*a.DimK || b.Width(k) != a.DimK || b.Width(weights) != a.Heads || top < 1) {
		return b.fail("index", "layer %d: q %d, k %d, weights %d columns for %d heads of %d; best %d",
			a.Layer, b.Width(q), b.Width(k), b.Width(weights), a.Heads, a.DimK, top)
	}
	a.KVHeads, a.DimV, a.MLA = 1, a.DimK, true
	return b.add(Index{a, top}, top, q, k, weights)
}

// Probs normalises groups of Group columns to a sum of 1: eˣ / Σ eˣ.
type Probs struct{ Group int }

func (Probs) op() {}

// Softmax applies a softmax to each group of columns.
func (b *Builder) Softmax(x Value, group int) Value {
	if b.err == nil && (group < 1 || b.Width(x)%group != 0) {
		return b.fail("softmax", "groups of %d in %d columns", group, b.Width(x))
	}
	return b.add(Probs{group}, b.Width(x), x)
}

// AttendTo is Attend over chosen positions only. chosen is the result of Index, or None for
// all positions.
func (b *Builder) AttendTo(q, k, v, chosen Value, a Attention) Value {
	y := b.Attend(q, k, v, a)
	if chosen == None || b.err != nil {
		return y
	}
	n := &b.plan.Nodes[len(b.plan.Nodes)-1]
	n.In = append(n.In, chosen)
	return y
}
