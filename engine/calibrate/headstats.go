package calibrate

import "godwit/engine/kv/layout"

// headStats collects statistics over the rows of all layers.
type headStats struct {
	layers []layout.LayerInfo
	from   int                      // first position that counts
	heads  [][]*layout.ChannelStats // [layer][KV head]
}

func newHeadStats(layers []layout.LayerInfo) *headStats {
	s := &headStats{layers: layers, from: calibrationSinks, heads: make([][]*layout.ChannelStats, len(layers))}
	for i := range layers {
		in := &layers[i]
		if !in.Cached || in.Share >= 0 || in.MLA {
			continue
		}
		for range in.KVHeads {
			s.heads[i] = append(s.heads[i], layout.NewChannelStats(in.HeadDimK, in.Rotary))
		}
	}
	return s
}

// add adds a row of a layer to the statistics. If the layer reads another layer's keys, its queries count for that
// other layer.
func (s *headStats) add(layer, pos int, q, k []float32) {
	if pos < s.from {
		return
	}
	in := &s.layers[layer]
	own := layer
	if k == nil && in.Share >= 0 {
		own = in.Share
	}
	heads := s.heads[own]
	if heads == nil {
		return
	}
	d, group := in.HeadDimK, in.Heads/in.KVHeads
	for h := range in.Heads {
		heads[h/group].AddQuery(pos, q[h*d:(h+1)*d])
	}
	for h := range len(k) / d {
		heads[h].AddKey(pos, k[h*d:(h+1)*d])
	}
}

func (s *headStats) calibration(model string, tokens int) *layout.Calibration {
	c := &layout.Calibration{Model: model, Tokens: tokens, Layers: make([]layout.LayerCalibration, len(s.layers))}
	for i, heads := range s.heads {
		for _, h := range heads {
			c.Layers[i].Keys = append(c.Layers[i].Keys, h.Moments())
		}
	}
	return c
}

// row returns the sums of all heads, in the form that put reads.
func (s *headStats) row() []byte {
	var out []byte
	for i, heads := range s.heads {
		for _, h := range heads {
			n := len(out)
			out = append(out, make([]byte, layout.ChannelRow(s.layers[i].HeadDimK))...)
			h.Get(out[n:])
		}
	}
	return out
}

// put restores the sums of an earlier run over read tokens. If they are not valid, it returns false
// and clears the counts.
func (s *headStats) put(row []byte, read int) bool {
	for i, heads := range s.heads {
		for _, h := range heads {
			n := layout.ChannelRow(s.layers[i].HeadDimK)
			if len(row) < n || h.Put(row[:n], read) != nil {
				s.clear()
				return false
			}
			row = row[n:]
		}
	}
	if len(row) > 0 {
		s.clear()
	}
	return len(row) == 0
}

// clear discards all counts.
func (s *headStats) clear() { s.heads = newHeadStats(s.layers).heads }
