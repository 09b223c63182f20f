package kv

import "math"

// ChannelStats gathers what the channels of one layer and KV head carry.
type ChannelStats struct {
	keys, queries int
	sum, square   []float64 // of the keys, by channel
	query         []float64 // squares of the queries
}

// NewChannelStats is empty statistics for heads of headDim values.
func NewChannelStats(headDim int) *ChannelStats {
	return &ChannelStats{sum: make([]float64, headDim), square: make([]float64, headDim), query: make([]float64, headDim)}
}

// AddKey counts a key, as attention reads it. Keys that are not finite are
// left out.
func (s *ChannelStats) AddKey(k []float32) {
	if !finite(k) {
		return
	}
	s.keys++
	for i, v := range k {
		s.sum[i] += float64(v)
		s.square[i] += float64(v) * float64(v)
	}
}

// AddQuery counts a query of the head's group.
func (s *ChannelStats) AddQuery(q []float32) {
	if !finite(q) {
		return
	}
	s.queries++
	for i, v := range q {
		s.query[i] += float64(v) * float64(v)
	}
}

// Gains reach from 1/maxGain to maxGain around their geometric mean: beyond,
// a channel carries nothing that has to be kept apart.
const maxGain = 256

// Channels is the calibration: the mean of the keys, and the gain at which a
// channel's error weighs the same in every channel, √(rms of q / rms of k
// around its mean). Both are rounded to f16, as they are kept. The geometric
// mean of the gains is 1.
// Source: spec gw-formats.md "Definition".
func (s *ChannelStats) Channels() Channels {
	n := len(s.sum)
	c := Channels{Mean: make([]float32, n), Gain: make([]float32, n)}
	s.measure(&c)
	return c
}

// measure fills c.
func (s *ChannelStats) measure(c *Channels) {
	var sum float64
	known := 0
	for i := range s.sum {
		mean, log := s.channel(i)
		c.Mean[i] = roundF16(float32(mean))
		if log == log {
			sum += log
			known++
		}
	}
	limit := math.Log(maxGain)
	for i := range s.sum {
		_, log := s.channel(i)
		if log -= sum / float64(max(known, 1)); log != log {
			log = 0
		}
		c.Gain[i] = roundF16(float32(math.Exp(min(max(log, -limit), limit))))
	}
}

// channel is the mean of a channel of the keys and the logarithm of its gain;
// that is no number where the channel carries nothing.
func (s *ChannelStats) channel(i int) (mean, log float64) {
	k, q := float64(max(s.keys, 1)), float64(max(s.queries, 1))
	mean = s.sum[i] / k
	around, query := s.square[i]/k-mean*mean, s.query[i]/q
	if around > 0 && query > 0 {
		return mean, (math.Log(query) - math.Log(around)) / 4
	}
	return mean, math.NaN()
}

// roundF16 is v as f16 holds it; what is too large becomes the largest.
func roundF16(v float32) float32 {
	var b [2]byte
	putF16(b[:], 0, v)
	return f16At(b[:], 0)
}

func finite(x []float32) bool {
	for _, v := range x {
		if v-v != 0 {
			return false
		}
	}
	return true
}
