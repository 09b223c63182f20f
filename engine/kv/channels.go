package kv

import "math"

// Channels is the calibration of one layer and KV head. A key is stored as
// Gain·(k - Mean) and a query divided by Gain, so that all channels have about
// the same magnitude. The missing product, query times Mean, is the same for
// every key.
type Channels struct{ Mean, Gain []float32 }

// Normalise writes Gain·(k - Mean) to dst, which may be k.
func (c *Channels) Normalise(dst, k []float32) {
	for i, v := range k {
		dst[i] = float32((v - c.Mean[i]) * c.Gain[i])
	}
}

// restore inverts Normalise.
func (c *Channels) restore(k []float32) {
	for i, v := range k {
		k[i] = float32(v/c.Gain[i]) + c.Mean[i]
	}
}

// Fits reports whether c is finite and has headDim values.
func (c *Channels) Fits(headDim int) bool {
	if len(c.Mean) != headDim || len(c.Gain) != headDim {
		return false
	}
	for i, g := range c.Gain {
		if m := c.Mean[i]; !(g > 0) || g > math.MaxFloat32 || m-m != 0 {
			return false
		}
	}
	return true
}
