package layout

import (
	"encoding/binary"
	"fmt"
	"math"

	"godwit/engine/kv"
)

// ChannelStats collects statistics of the channels of one layer and KV head.
// Rows are rotated back to position 0, because the mean of the keys in the form
// that attention reads depends on their positions.
type ChannelStats struct {
	rotary        []RotaryPart
	keys, queries sums
	back          []float64 // a row rotated back to position 0
	sincos        []float64 // sines and cosines of the pairs at pos
	pos           int
}

// sums holds sums over rows: the values, their squares, and the products of the
// two columns of each RoPE pair. A pair's product is at the index of its first
// column.
type sums struct {
	n                  int
	sum, square, cross []float64
}

func newSums(headDim int) sums {
	return sums{sum: make([]float64, headDim), square: make([]float64, headDim), cross: make([]float64, headDim)}
}

func (m *sums) clear() {
	m.n = 0
	for _, x := range m.arrays() {
		clear(x)
	}
}

func (m *sums) arrays() [3][]float64 { return [3][]float64{m.sum, m.square, m.cross} }

// NewChannelStats returns empty statistics for heads of headDim values with
// RoPE r.
func NewChannelStats(headDim int, r Rotary) *ChannelStats {
	return &ChannelStats{
		rotary: r.Parts, keys: newSums(headDim), queries: newSums(headDim),
		back: make([]float64, headDim), sincos: make([]float64, 0, headDim), pos: -1,
	}
}

// ChannelRow returns the number of bytes that [ChannelStats.Get] writes for heads
// of headDim values.
func ChannelRow(headDim int) int { return 8 * (2*3*headDim + 2) }

// channelArrays returns the sums of the keys and of the queries.
func (s *ChannelStats) channelArrays() [6][]float64 {
	k, q := s.keys.arrays(), s.queries.arrays()
	return [6][]float64{k[0], k[1], k[2], q[0], q[1], q[2]}
}

// Get writes the sums and counts, so that another ChannelStats can continue
// counting.
func (s *ChannelStats) Get(row []byte) {
	n := len(s.back)
	for i, x := range s.channelArrays() {
		for j, v := range x {
			binary.LittleEndian.PutUint64(row[8*(i*n+j):], math.Float64bits(v))
		}
	}
	binary.LittleEndian.PutUint64(row[8*6*n:], uint64(s.keys.n))
	binary.LittleEndian.PutUint64(row[8*(6*n+1):], uint64(s.queries.n))
}

// Put is the inverse of Get. It rejects sums that are not finite, and more than
// most rows.
func (s *ChannelStats) Put(row []byte, most int) error {
	n := len(s.back)
	keys, queries := binary.LittleEndian.Uint64(row[8*6*n:]), binary.LittleEndian.Uint64(row[8*(6*n+1):])
	if keys > uint64(most) || queries > uint64(most)*maxKVHeads {
		return fmt.Errorf("%w: %d keys and %d queries, at most %d keys are possible", ErrCalibration, keys, queries, most)
	}
	for i, x := range s.channelArrays() {
		for j := range x {
			v := math.Float64frombits(binary.LittleEndian.Uint64(row[8*(i*n+j):]))
			if v-v != 0 {
				return fmt.Errorf("%w: a sum that is not finite", ErrCalibration)
			}
			x[j] = v
		}
	}
	s.keys.n, s.queries.n = int(keys), int(queries)
	return nil
}

// AddKey adds the key of a position in the form that attention reads. Keys that are
// not finite are ignored.
func (s *ChannelStats) AddKey(pos int, k []float32) { s.count(&s.keys, pos, k) }

// AddQuery adds a query of the head's group.
func (s *ChannelStats) AddQuery(pos int, q []float32) { s.count(&s.queries, pos, q) }

func (s *ChannelStats) count(m *sums, pos int, x []float32) {
	if !finite(x) {
		return
	}
	for i, v := range x {
		s.back[i] = float64(v)
	}
	sincos := s.at(pos)
	for i := range s.rotary {
		p := &s.rotary[i]
		for j := range p.Freqs {
			a, b := p.Pair(j)
			sin, cos := sincos[2*j], sincos[2*j+1]
			u, v := s.back[a], s.back[b]
			s.back[a], s.back[b] = u*cos+v*sin, v*cos-u*sin
			m.cross[a] += s.back[a] * s.back[b]
		}
		sincos = sincos[2*len(p.Freqs):]
	}
	for i, v := range s.back {
		m.sum[i] += v
		m.square[i] += v * v
	}
	m.n++
}

// at returns the sine and cosine of each pair at a position.
func (s *ChannelStats) at(pos int) []float64 {
	if pos == s.pos {
		return s.sincos
	}
	s.sincos, s.pos = s.sincos[:0], pos
	for i := range s.rotary {
		for _, f := range s.rotary[i].Freqs {
			sin, cos := math.Sincos(float64(pos) * float64(f))
			s.sincos = append(s.sincos, sin, cos)
		}
	}
	return s.sincos
}

// spread replaces the sums at position 0 by the expected sums over the positions of
// conversations of up to span positions.
func (s *ChannelStats) spread(span int) {
	for i := range s.rotary {
		p := &s.rotary[i]
		for j, f := range p.Freqs {
			a, b := p.Pair(j)
			t := anglesOver(float64(f), span)
			s.keys.spread(t, a, b)
			s.queries.spread(t, a, b)
		}
	}
}

func (m *sums) spread(t angles, a, b int) {
	u, v := m.sum[a], m.sum[b]
	m.sum[a], m.sum[b] = t.cos*u-t.sin*v, t.sin*u+t.cos*v
	u, v = m.square[a], m.square[b]
	both := 2 * t.cross * m.cross[a]
	m.square[a], m.square[b] = t.cos2*u+(1-t.cos2)*v-both, (1-t.cos2)*u+t.cos2*v+both
}

// angles holds averages over angles of cosine, sine, squared cosine, and cosine
// times sine.
type angles struct{ cos, sin, cos2, cross float64 }

// spanHalves is the number of conversation lengths, which have equal weight. Each
// length is half of the previous one, starting with the longest possible
// conversation. One mean must serve short and long conversations (docs/gw.md).
const spanHalves = 3

// anglesOver returns the averages over the positions of these conversations.
func anglesOver(freq float64, span int) (t angles) {
	angle := freq * float64(max(span, SelfRows))
	for range spanHalves {
		n := anglesTo(angle)
		t.cos += n.cos / spanHalves
		t.sin += n.sin / spanHalves
		t.cos2 += n.cos2 / spanHalves
		t.cross += n.cross / spanHalves
		angle /= 2
	}
	return t
}

// anglesTo returns the averages over the angles from 0 to angle.
func anglesTo(angle float64) angles {
	if math.Abs(angle) < 1e-9 { // equal to the values at angle 0 within float32 precision
		return angles{cos: 1, cos2: 1}
	}
	sin, cos := math.Sincos(angle)
	return angles{
		cos: sin / angle, sin: (1 - cos) / angle,
		cos2: 0.5 + sin*cos/(2*angle), cross: sin * sin / (2 * angle),
	}
}

// Gains range from 1/maxGain to maxGain around their geometric mean. A channel
// beyond that range carries no useful information.
const maxGain = 256

// measure fills c with the mean of the keys, and with the gain at which a channel's
// error has the same weight in every channel, √(rms of q / rms of k around its
// mean). Both are rounded to f16. The geometric mean of the gains is 1. Source:
// spec gw-formats.md "Definition".
func (s *ChannelStats) measure(c *kv.Channels) {
	var sum float64
	known := 0
	for i := range s.keys.sum {
		mean, log := s.channel(i)
		c.Mean[i] = kv.RoundF16(float32(mean))
		if log == log {
			sum += log
			known++
		}
	}
	limit := math.Log(maxGain)
	for i := range s.keys.sum {
		_, log := s.channel(i)
		if log -= sum / float64(max(known, 1)); log != log {
			log = 0
		}
		c.Gain[i] = kv.RoundF16(float32(math.Exp(min(max(log, -limit), limit))))
	}
}

// channel returns the mean of a key channel and the logarithm of its gain, which is
// NaN for a channel without information.
func (s *ChannelStats) channel(i int) (mean, log float64) {
	k, q := float64(max(s.keys.n, 1)), float64(max(s.queries.n, 1))
	mean = s.keys.sum[i] / k
	around, query := s.keys.square[i]/k-mean*mean, s.queries.square[i]/q
	if around > 0 && query > 0 {
		return mean, (math.Log(query) - math.Log(around)) / 4
	}
	return mean, math.NaN()
}

func finite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}
