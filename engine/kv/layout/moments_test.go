package layout

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"godwit/engine/kv"
)

// roped generates keys and queries that have the same distribution at position 0,
// wherever they are read.
type roped struct {
	r   Rotary
	rng *rand.Rand
}

func newRoped(r Rotary) *roped { return &roped{r, rand.New(rand.NewPCG(7, 8))} }

// row is a key (shift 3) or query (shift 0) at pos. Its pairs have different means,
// sizes and products, and so have the columns without RoPE.
func (t *roped) row(dim, pos int, shift float64) []float32 {
	x := make([]float32, dim)
	common := t.rng.NormFloat64()
	for i := range x {
		x[i] = float32(shift*float64(i%3) + t.rng.NormFloat64()*float64(1+i%4) + common*float64(i%2+1))
	}
	for i := range t.r.Parts {
		p := &t.r.Parts[i]
		for j, f := range p.Freqs {
			a, b := p.Pair(j)
			u, v := float64(x[a]), float64(x[b])
			sin, cos := math.Sincos(float64(pos) * float64(f))
			x[a], x[b] = float32(u*cos-v*sin), float32(u*sin+v*cos)
		}
	}
	return x
}

// freqs are the frequencies of a RoPE of n pairs.
func freqs(n int, base, factor float64) []float32 {
	f := make([]float32, n)
	for j := range f {
		f[j] = float32(math.Pow(base, -float64(j)/float64(n)) / factor)
	}
	return f
}

// rotaries are RoPEs of heads of 32 values as models use them.
var rotaries = map[string]Rotary{
	"halves":   {Parts: []RotaryPart{{Freqs: freqs(16, 10000, 1)}}},
	"adjacent": {Parts: []RotaryPart{{Freqs: freqs(16, 10000, 1), Adjacent: true}}},
	"scaled":   {Parts: []RotaryPart{{Freqs: freqs(16, 1e6, 8)}}},
	"partial":  {Parts: []RotaryPart{{First: 8, Freqs: freqs(6, 10000, 1)}}},
	"two":      {Parts: []RotaryPart{{Freqs: freqs(4, 100, 1)}, {First: 16, Freqs: freqs(8, 10000, 1), Adjacent: true}}},
	"none":     {},
}

// lengths are the conversation lengths, which have equal weight.
func lengths(span int) (list []int) {
	for range spanHalves {
		list = append(list, span)
		span /= 2
	}
	return list
}

// The statistics of a short text, spread over a long span, equal those measured on
// texts of the lengths that lengths returns for that span.
func TestMomentsSpread(t *testing.T) {
	const dim, span = 32, 6400
	for name, r := range rotaries {
		rows := newRoped(r)
		short, long := NewChannelStats(dim, r), NewChannelStats(dim, Rotary{})
		for i := range 40000 {
			pos := i % 500
			short.AddKey(pos, rows.row(dim, pos, 3))
			short.AddQuery(pos, rows.row(dim, pos, 0))
			for _, n := range lengths(span) {
				pos := i * 7 % n
				long.AddKey(pos, rows.row(dim, pos, 3))
				long.AddQuery(pos, rows.row(dim, pos, 0))
			}
		}
		m, all := short.Moments(), long.Moments()
		got, want := m.Channels(r, span), all.Channels(Rotary{}, 0)
		// Four standard errors of a mean of 40,000 rows that are at most 5, plus
		// the difference between the sums over positions and integrals.
		const near = 4*5.0/200 + 0.02
		for i := range dim {
			if math.Abs(float64(got.Mean[i]-want.Mean[i])) > near || math.Abs(math.Log(float64(got.Gain[i]/want.Gain[i]))) > 0.03 {
				t.Errorf("%s channel %d: mean %.3f gain %.3f, want %.3f and %.3f", name, i, got.Mean[i], got.Gain[i], want.Mean[i], want.Gain[i])
			}
		}
	}
}

// A conversation's own calibration is spread over positions in the same way.
func TestSelfCalibrationSpread(t *testing.T) {
	const dim, span = 32, 6400
	for name, r := range rotaries {
		rows := newRoped(r)
		o, s := NewSelfCalibration(dim, r, span), NewChannelStats(dim, r)
		for pos := range SelfRows {
			k, q := rows.row(dim, pos, 3), append(rows.row(dim, pos, 0), rows.row(dim, pos, 0)...)
			o.Add(pos, k, q)
			if pos >= selfSkip {
				s.AddKey(pos, k)
				s.AddQuery(pos, q[:dim])
				s.AddQuery(pos, q[dim:])
			}
		}
		m := s.Moments()
		got, want := o.Channels(), m.Channels(r, span)
		for i := range dim { // except the last bits of f16, since moments are kept in f32
			if math.Abs(float64(got.Mean[i]-want.Mean[i])) > 1e-3*max(1, math.Abs(float64(want.Mean[i]))) || math.Abs(float64(got.Gain[i]/want.Gain[i])-1) > 1e-3 {
				t.Errorf("%s channel %d: mean %g gain %g, want %g and %g", name, i, got.Mean[i], got.Gain[i], want.Mean[i], want.Gain[i])
			}
		}
	}
}

// The largest possible keys give moments that can be saved, and finite channels.
func TestMomentsHostile(t *testing.T) {
	const dim = 32
	for name, r := range rotaries {
		s := NewChannelStats(dim, r)
		k := make([]float32, dim)
		for pos := range 100 {
			for i := range k {
				k[i] = []float32{0, math.MaxFloat32, -math.MaxFloat32, 1e-40, 1, 7}[(pos*i)%6]
			}
			s.AddKey(pos, k)
			s.AddQuery(pos, k)
		}
		m := s.Moments()
		if c := m.Channels(r, 1<<20); !m.fits(dim) || !c.Fits(dim) {
			t.Errorf("%s: %v gives %v", name, m, c)
		}
	}
}

// The channels of a layout are those for the requested span and the layer's RoPE.
func TestResolveSpan(t *testing.T) {
	layers := model(2, 8, 2, 64)
	layers[1].Rotary = Rotary{Parts: []RotaryPart{{Freqs: freqs(32, 10000, 1)}}}
	c := calibrated(layers, 9)
	for _, span := range []int{512, 8192} {
		l := resolve(t, Want{kv.GW3, kv.GW3}, layers, Settings{Cells: 64, Span: span, Calibration: c, AutoAsymmetric: Off})
		for i := range layers {
			for h, got := range l.Layers[i].K.Channels {
				want := c.Layers[i].Keys[h].Channels(layers[i].Rotary, span)
				if !slices.Equal(got.Mean, want.Mean) || !slices.Equal(got.Gain, want.Gain) {
					t.Errorf("span %d layer %d head %d: other channels", span, i, h)
				}
			}
		}
	}
	short, long := c.Layers[1].Keys[0].Channels(layers[1].Rotary, 512), c.Layers[1].Keys[0].Channels(layers[1].Rotary, 8192)
	if slices.Equal(short.Mean, long.Mean) {
		t.Error("a turned layer has one mean for every span")
	}
}
