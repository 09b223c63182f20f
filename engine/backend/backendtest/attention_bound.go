package backendtest

import (
	"math"

	"godwit/engine/kv"
)

// judge compares the error of a run with the error that the arithmetic
// explains.
func (c *attentionCase) judge(t T, e misses) {
	t.Helper()
	limit := c.bound()
	if e.largest > limit {
		t.Errorf("off by %g, at most %g", e.largest, limit)
	}
	// On Gaussian data, int8 queries and 8-bit weights add a relative error of
	// at most 0.01.
	if c.int8() && !c.Outliers && e.rms() > 0.01 {
		t.Errorf("relative error %.4f, at most 0.01", e.rms())
	}
}

// int8 reports whether a side of the layout is computed in int8.
func (c *attentionCase) int8() bool {
	packed := func(t *kv.Type) bool { return !t.Float }
	l := &c.layout.Layers[0]
	return !c.Float && (packed(l.K.Active) || packed(l.V.Active))
}

// row returns the input of a token for head h of q, k or v.
func (c *attentionCase) row(token int, of byte, h int) []float32 {
	width := c.Heads*c.DimK + c.KVHeads*(c.DimK+c.DimV)
	x := c.input[token*width : (token+1)*width]
	switch of {
	case 'q':
		return x[h*c.DimK:][:c.DimK]
	case 'k':
		return x[c.Heads*c.DimK+h*c.DimK:][:c.DimK]
	}
	return x[c.Heads*c.DimK+c.KVHeads*c.DimK+h*c.DimV:][:c.DimV]
}

// sizes holds the largest lengths and values of a case's inputs, as the cache
// types store them.
type sizes struct {
	q, qTop float64 // length and largest value of a rotated query
	k, kTop float64 // length and largest value of a key
	v       float64 // largest value of V, rotated or not
}

// sizesOf identifies cached sizes.
type sizesOf struct {
	side     kv.Side
	t        *kv.Type
	outliers bool
}

// sizes returns the sizes of both sides. Cases with the same inputs share them.
func (c *attentionCase) sizes() sizes {
	l := &c.layout.Layers[0]
	known := func(of sizesOf, find func(*kv.Type) sizes) sizes {
		s, ok := c.known[of]
		if !ok {
			s = find(of.t)
			if c.known != nil {
				c.known[of] = s
			}
		}
		return s
	}
	s := known(sizesOf{kv.K, l.K.Active, c.Outliers}, c.keySizes)
	s.v = known(sizesOf{kv.V, l.V.Active, c.Outliers}, c.valueSizes).v
	return s
}

// keySizes returns the sizes of queries and keys.
func (c *attentionCase) keySizes(t *kv.Type) (s sizes) {
	q, res := make([]float32, t.Padded(c.DimK)), make([]float32, t.Padded(c.DimK))
	for token := range vocab {
		for h := range c.Heads {
			t.RotateQuery(q, res, c.row(token, 'q', h))
			s.q = max(s.q, norm(q), norm(c.row(token, 'q', h)))
			s.qTop = max(s.qTop, largest(q), largest(res))
		}
		for h := range c.KVHeads {
			k := rotated(t, c.row(token, 'k', h))
			s.k, s.kTop = max(s.k, norm(k)), max(s.kTop, largest(k))
		}
	}
	if t.HasResidual() {
		s.k *= 2 // a residual is at most as long as its key
	}
	return s
}

// valueSizes returns the sizes of values.
func (c *attentionCase) valueSizes(t *kv.Type) (s sizes) {
	values := byte('v')
	if c.MLA {
		values = 'k'
	}
	for token := range vocab {
		for h := range c.KVHeads {
			v := c.row(token, values, h)
			s.v = max(s.v, largest(v), largest(rotated(t, v)))
		}
	}
	return s
}

// bound returns the largest error that the arithmetic explains. Errors of random
// sign add up to their root mean square. The bound is six standard deviations.
//
// A score is a sum of n products and n sums. Each of them is rounded by 2⁻²⁴ of a
// value that is at most the product of both lengths. The rotation of the query adds
// as much. In int8, the error of a query value is at most half a 127th of the
// largest value of its block, and the error of a level is at most half a 127th of
// the outermost level. A weight has the relative error of its score. The output is
// a weighted mean of values, and its error is this share of their spread. The sum
// over the context adds rounding errors of its own. In int8, a weight is also
// rounded by half a 255th of the largest weight of its page.
func (c *attentionCase) bound() float64 {
	s, l := c.sizes(), &c.layout.Layers[0]
	const eps = 0x1p-24
	n := 4 * float64(l.K.Active.Padded(c.DimK))
	score := 6 * math.Sqrt(n) * eps * s.q * s.k
	if !c.Float && !l.K.Active.Float {
		score += 6 * math.Hypot(s.qTop*s.k, s.kTop*s.q) / 127 / math.Sqrt(12)
	}
	score /= math.Sqrt(float64(c.DimK))
	bound := score*(1+score)*2*s.v + 6*math.Sqrt(4*1024)*eps*s.v
	if !c.Float && !l.V.Active.Float {
		bound += 6 * s.v * (math.Sqrt(kv.PageCells)/255 + 1./127) / math.Sqrt(12)
	}
	return bound
}

// rotated returns a head as a type decodes it, in the rotated domain.
func rotated(t *kv.Type, x []float32) []float32 {
	buf := make([]byte, t.RowBytes(len(x)))
	t.Encode(buf, x, kv.At{})
	out := make([]float32, t.Padded(len(x)))
	t.DecodeRotated(out, buf)
	return out
}

func norm(x []float32) float64 {
	var s float64
	for _, v := range x {
		s += float64(v) * float64(v)
	}
	return math.Sqrt(s)
}

func largest(x []float32) (m float64) {
	for _, v := range x {
		m = max(m, math.Abs(float64(v)))
	}
	return m
}
