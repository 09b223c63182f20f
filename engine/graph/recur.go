package graph

type (
	// Scan is Mamba's selective scan. Each column j has a state of one value per key, and
	// each value has its own decay. Operands: x and dt [width], b and c [keys]. A is [keys,
	// width]. State is [key][column]:
	//	S[i][j] ← e^(dt[j]·A[j][i])·S[i][j] + dt[j]·x[j]·b[i], y[j] = Σ c[i]·S[i][j]
	// Source: arXiv 2312.00752.
	Scan struct {
		A     *Weight
		State int
	}

	// Recur is a linear recurrence with a matrix state for each head. Every key column has
	// its own decay. Operands: q and k [heads·keys], v [heads·values], g, the logarithm of
	// the decay [heads·keys], and a and b [heads·keys], which may be None. State is
	// [head][key][value]:
	//	S ← e^g·S + b·(aᵀS′) + k·vᵀ, o = Scale·qᵀS
	// S′ is the state before it decays or, with Late, after. With Before, o is computed
	// from the state before the row. Sources: arXiv 2404.05892 (RWKV 6), 2503.14456 (RWKV
	// 7), 2312.06635 (gated linear attention), 2510.26692 (Kimi delta attention).
	Recur struct {
		Heads        int
		Scale        float32
		Late, Before bool
		State        int
	}
)

func (Scan) op()  {}
func (Recur) op() {}

// Scan runs Mamba's selective scan along the sequence.
func (b *Builder) Scan(x, dt, keys, queries Value, layer int, a *Weight) Value {
	if b.err != nil {
		return 0
	}
	w, n := b.Width(x), b.Width(keys)
	if b.Width(dt) != w || b.Width(queries) != n || a.Cols() != n || a.Rows() != w {
		return b.fail("scan", "x %d, dt %d, b %d, c %d columns, %s is %v", w, b.Width(dt), n, b.Width(queries), a.Name, a.Shape)
	}
	return b.add(Scan{a, b.state(layer, w*n)}, w, x, dt, keys, queries)
}

// Recur runs a linear recurrence along the sequence. It sets r.State.
func (b *Builder) Recur(q, k, v, g, from, to Value, layer int, r Recur) Value {
	if b.err != nil {
		return 0
	}
	keys, values := b.Width(q), b.Width(v)
	ok := r.Heads > 0 && keys%r.Heads == 0 && values%r.Heads == 0 && b.Width(k) == keys && b.Width(g) == keys && (from == None) == (to == None)
	if from != None {
		ok = ok && b.Width(from) == keys && b.Width(to) == keys
	}
	if !ok {
		return b.fail("recurrence", "q %d, k %d, v %d, g %d, a %d, b %d columns for %d heads",
			keys, b.Width(k), values, b.Width(g), b.Width(from), b.Width(to), r.Heads)
	}
	if keys/r.Heads > maxWidth/values {
		return b.fail("recurrence", "a state of %d·%d values", keys/r.Heads, values)
	}
	r.State = b.state(layer, keys/r.Heads*values)
	return b.add(r, values, q, k, v, g, from, to)
}
