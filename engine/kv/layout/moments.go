package layout

import (
	"math"

	"godwit/engine/kv"
)

// Moments is the calibration of one layer and KV head. It holds statistics of keys
// and queries at position 0, from which the statistics at any positions can be
// computed. Products of the two columns of a RoPE pair are at the index of the
// first column.
type Moments struct {
	Mean, Var, Cross  []float32 // moments of the keys; squares and products are around the mean
	Query, QueryCross []float32 // squares and products of the queries
}

// momentArrays is the number of arrays of a Moments.
const momentArrays = 5

func (m *Moments) arrays() [momentArrays]*[]float32 {
	return [momentArrays]*[]float32{&m.Mean, &m.Var, &m.Cross, &m.Query, &m.QueryCross}
}

// newMoments slices its arrays of headDim values from x, one after another.
func newMoments(x []float32, headDim int) (m Moments) {
	for i, a := range m.arrays() {
		*a = x[i*headDim : (i+1)*headDim : (i+1)*headDim]
	}
	return m
}

// Moments returns the collected statistics.
func (s *ChannelStats) Moments() Moments {
	n := len(s.back)
	m := newMoments(make([]float32, momentArrays*n), n)
	k, q := 1/float64(max(s.keys.n, 1)), 1/float64(max(s.queries.n, 1))
	for i := range n {
		mean := s.keys.sum[i] * k
		m.Mean[i] = limited(mean)
		m.Var[i] = limited(max(s.keys.square[i]*k-mean*mean, 0))
		m.Query[i] = limited(s.queries.square[i] * q)
	}
	for i := range s.rotary {
		p := &s.rotary[i]
		for j := range p.Freqs {
			a, b := p.Pair(j)
			m.Cross[a] = limited(s.keys.cross[a]*k - s.keys.sum[a]*k*s.keys.sum[b]*k)
			m.QueryCross[a] = limited(s.queries.cross[a] * q)
		}
	}
	return m
}

// limited clamps v to a finite float32.
func limited(v float64) float32 {
	return float32(min(max(v, -math.MaxFloat32), math.MaxFloat32))
}

// Channels returns the calibration for conversations that reach span positions,
// with RoPE r.
func (m *Moments) Channels(r Rotary, span int) kv.Channels {
	n := len(m.Mean)
	s := NewChannelStats(n, r)
	s.keys.n, s.queries.n = 1, 1
	for i := range n {
		mean := float64(m.Mean[i])
		s.keys.sum[i], s.keys.square[i] = mean, float64(m.Var[i])+mean*mean
		s.queries.square[i], s.queries.cross[i] = float64(m.Query[i]), float64(m.QueryCross[i])
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		for j := range p.Freqs {
			a, b := p.Pair(j)
			s.keys.cross[a] = float64(m.Cross[a]) + s.keys.sum[a]*s.keys.sum[b]
		}
	}
	s.spread(span)
	c := kv.Channels{Mean: make([]float32, n), Gain: make([]float32, n)}
	s.measure(&c)
	return c
}

// fits reports whether m is finite and has headDim values.
func (m *Moments) fits(headDim int) bool {
	for _, a := range m.arrays() {
		if len(*a) != headDim || !finite(*a) {
			return false
		}
	}
	return true
}
