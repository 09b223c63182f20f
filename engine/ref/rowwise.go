package ref

import (
	"fmt"
	"math"
	"sort"

	"godwit/engine/graph"
)

// rowWise runs an op on one row. The op must treat rows independently.
func (m *Machine) rowWise(op graph.Op, in [][]float64, pos int) []float64 {
	x := in[0]
	switch op := op.(type) {
	case graph.Linear:
		return addTo(matVec(m.weight(op.W), op.W.Cols(), x), m.weight(op.Bias))
	case graph.HeadLinear:
		w, c, r := m.weight(op.W), op.W.Cols(), op.W.Rows()
		var out []float64
		for h := range op.W.Mats() {
			out = append(out, matVec(w[h*c*r:(h+1)*c*r], c, x[h*c:(h+1)*c])...)
		}
		return out
	case graph.Norm:
		return m.norm(op, x)
	case graph.Affine:
		w, b := m.weight(op.W), m.weight(op.B)
		return each(x, func(i int, v float64) float64 {
			if w != nil {
				v *= w[i%len(w)]
			}
			if b != nil {
				v += b[i%len(b)]
			}
			return v
		})
	case graph.Rope:
		return rope(op, x, func(int) int { return pos })
	case graph.Temperature:
		t := 1 + float64(op.Scale)*math.Log(1+math.Floor(float64(pos+op.Offset)/float64(op.Every)))
		return each(x, func(_ int, v float64) float64 { return v * t })
	case graph.Add:
		return each(x, func(i int, v float64) float64 { return v + in[1][i] })
	case graph.Mul:
		n := len(x) / len(in[1])
		return each(x, func(i int, v float64) float64 { return v * in[1][i/n] })
	case graph.Scale:
		return each(x, func(_ int, v float64) float64 { return v * float64(op.By) })
	case graph.Clamp:
		return each(x, func(_ int, v float64) float64 { return math.Min(math.Max(v, float64(op.Low)), float64(op.High)) })
	case graph.Softcap:
		return each(x, func(_ int, v float64) float64 { return float64(op.Cap) * math.Tanh(v/float64(op.Cap)) })
	case graph.Probs:
		var out []float64
		for i := 0; i < len(x); i += op.Group {
			out = append(out, softmax(x[i:i+op.Group])...)
		}
		return out
	case graph.Act:
		return each(x, func(_ int, v float64) float64 { return apply(op.F, v) })
	case graph.Glu:
		return each(x, func(i int, g float64) float64 { return glu(op, g, in[1][i]) })
	case graph.Slice:
		var out []float64
		for i := 0; i < len(x); i += op.Group {
			out = append(out, x[i+op.First:i+op.First+op.Take]...)
		}
		return out
	case graph.Concat:
		return concat(op, x, in[1])
	case graph.Repeat:
		var out []float64
		group, times := op.Group, op.Times
		if op.Tile {
			group = len(x)
		}
		for i := 0; i < len(x); i += group {
			for range times {
				out = append(out, x[i:i+group]...)
			}
		}
		return out
	default:
		return m.experts(op, in)
	}
}

func each(x []float64, f func(i int, v float64) float64) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = f(i, v)
	}
	return out
}

func addTo(x, b []float64) []float64 {
	for i := range b {
		x[i] += b[i]
	}
	return x
}

func matVec(w []float64, cols int, x []float64) []float64 {
	out := make([]float64, len(w)/cols)
	for r := range out {
		for i, v := range x {
			out[r] += w[r*cols+i] * v
		}
	}
	return out
}

func (m *Machine) norm(op graph.Norm, x []float64) []float64 {
	w, b := m.weight(op.W), m.weight(op.B)
	out := make([]float64, len(x))
	for g := 0; g < len(x); g += op.Group {
		v := x[g : g+op.Group]
		n := float64(len(v))
		var mean, squares float64
		for _, a := range v {
			mean += a / n
			squares += a * a
		}
		shift, div := 0.0, 0.0
		switch op.Kind {
		case graph.RMS:
			div = math.Sqrt(squares/n + float64(op.Eps))
		case graph.Layer:
			shift = mean
			var variance float64
			for _, a := range v {
				variance += (a - mean) * (a - mean) / n
			}
			div = math.Sqrt(variance + float64(op.Eps))
		case graph.L2:
			div = math.Max(math.Sqrt(squares), float64(op.Eps))
		}
		for i, a := range v {
			y := (a - shift) / div
			if w != nil {
				y *= w[(g+i)%len(w)]
			}
			if b != nil {
				y += b[(g+i)%len(b)]
			}
			out[g+i] = y
		}
	}
	return out
}

// rope rotates the pairs of every head. at returns the position of a pair.
func rope(op graph.Rope, x []float64, at func(pair int) int) []float64 {
	out := append([]float64(nil), x...)
	n := len(op.Freqs)
	for h := 0; h < len(x); h += op.HeadDim {
		for i, f := range op.Freqs {
			sin, cos := math.Sincos(float64(at(i)) * float64(f))
			sin, cos = sin*float64(op.Scale), cos*float64(op.Scale)
			a, b := h+op.First+i, h+op.First+i+n
			if op.Adjacent {
				a, b = h+op.First+2*i, h+op.First+2*i+1
			}
			out[a], out[b] = x[a]*cos-x[b]*sin, x[a]*sin+x[b]*cos
		}
	}
	return out
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

func apply(f graph.Func, v float64) float64 {
	switch f {
	case graph.SiLU:
		return v * sigmoid(v)
	case graph.GELU:
		return 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
	case graph.GELUErf:
		return 0.5 * v * (1 + math.Erf(v/math.Sqrt2))
	case graph.ReLU:
		return math.Max(v, 0)
	case graph.ReLU2:
		return math.Max(v, 0) * math.Max(v, 0)
	case graph.Sigmoid:
		return sigmoid(v)
	case graph.Softplus:
		return math.Max(v, 0) + math.Log1p(math.Exp(-math.Abs(v)))
	case graph.Tanh:
		return math.Tanh(v)
	case graph.Exp:
		return math.Exp(v)
	case graph.GELUQuick:
		return v * sigmoid(1.702*v)
	}
	return v
}

func glu(op graph.Glu, g, u float64) float64 {
	if limit := float64(op.Limit); limit > 0 {
		g, u = math.Min(g, limit), math.Max(-limit, math.Min(limit, u))
		return g * sigmoid(1.702*g) * (u + 1)
	}
	return apply(op.F, g) * u
}

func concat(op graph.Concat, x, y []float64) []float64 {
	var out []float64
	nx, ny := len(x)/op.GroupA, len(y)/op.GroupB
	for i := range max(nx, ny) {
		a, b := i%nx*op.GroupA, i%ny*op.GroupB
		out = append(out, x[a:a+op.GroupA]...)
		out = append(out, y[b:b+op.GroupB]...)
	}
	return out
}

// experts runs the ops of mixture-of-experts layers.
func (m *Machine) experts(op graph.Op, in [][]float64) []float64 {
	x := in[0]
	switch op := op.(type) {
	case graph.Route:
		return m.route(op.Routing, x)
	case graph.ExpertLinear:
		used := len(in[1]) / 2
		c, r := op.W.Cols(), op.W.Rows()
		w, bias := m.weight(op.W), m.weight(op.Bias)
		var out []float64
		for s := range used {
			e := int(in[1][s])
			part := x
			if len(x) != c {
				part = x[s*c : (s+1)*c]
			}
			y := matVec(w[e*c*r:(e+1)*c*r], c, part)
			if bias != nil {
				addTo(y, bias[e*r:(e+1)*r])
			}
			out = append(out, y...)
		}
		return out
	case graph.ExpertScale:
		n, w := len(x)/op.Used, m.weight(op.W)
		return each(x, func(i int, v float64) float64 { return v * w[int(in[1][i/n])] })
	case graph.ExpertSum:
		n := len(x) / op.Used
		out := make([]float64, n)
		for i, v := range x {
			out[i%n] += v * in[1][op.Used+i/n]
		}
		return out
	}
	panic(fmt.Sprintf("ref: no formula for %T", op))
}

func softmax(x []float64) []float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = math.Max(top, v)
	}
	var sum float64
	out := each(x, func(_ int, v float64) float64 { e := math.Exp(v - top); sum += e; return e })
	return each(out, func(_ int, v float64) float64 { return v / sum })
}

func (m *Machine) route(r graph.Routing, x []float64) []float64 {
	prob := append([]float64(nil), x...)
	switch r.Gating {
	case graph.Softmax:
		prob = softmax(x)
	case graph.SigmoidGate:
		prob = each(x, func(_ int, v float64) float64 { return sigmoid(v) })
	}
	choose := append([]float64(nil), prob...)
	addTo(choose, m.weight(r.Bias))
	allowed := make([]bool, len(x))
	for e := range allowed {
		allowed[e] = r.Groups == 0
	}
	if r.Groups > 0 {
		n := len(x) / r.Groups
		order := make([]int, r.Groups)
		score := make([]float64, r.Groups)
		for g := range order {
			order[g] = g
			s := append([]float64(nil), choose[g*n:(g+1)*n]...)
			sort.Sort(sort.Reverse(sort.Float64Slice(s)))
			score[g] = s[0]
			if n > 1 {
				score[g] += s[1]
			}
		}
		sort.SliceStable(order, func(a, b int) bool { return score[order[a]] > score[order[b]] })
		for _, g := range order[:r.UsedGroups] {
			for i := range n {
				allowed[g*n+i] = true
			}
		}
	}
	order := []int{}
	for e := range x {
		if allowed[e] {
			order = append(order, e)
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return choose[order[a]] > choose[order[b]] })
	var ids, w []float64
	for _, e := range order[:r.Used] {
		e /= max(r.Share, 1)
		ids, w = append(ids, float64(e)), append(w, prob[e])
	}
	if r.Gating == graph.SoftmaxSelected {
		w = softmax(w)
	}
	if r.Normalise {
		var sum float64
		for _, v := range w {
			sum += v
		}
		w = each(w, func(_ int, v float64) float64 { return v / math.Max(sum, math.Ldexp(1, -14)) })
	}
	return append(ids, each(w, func(_ int, v float64) float64 { return v * float64(r.Scale) })...)
}
