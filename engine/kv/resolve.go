package kv

import "fmt"

// Resolve decides the type of every layer. It is pure: the same arguments give
// the same layout.
// Source: spec kv-policies.md and kv-formats.md section 8.
func Resolve(want Want, layers []LayerInfo, s Settings) (Layout, error) {
	if want.K == nil {
		want.K = F16
	}
	if want.V == nil {
		want.V = F16
	}
	l := Layout{Want: want, Settings: s}
	for i := range layers {
		y, err := l.layer(&layers[i])
		if err != nil {
			return Layout{}, err
		}
		l.Layers = append(l.Layers, y)
	}
	l.group(layers)
	l.resize(s.Cells)
	return l, nil
}

// layer resolves one layer.
func (l *Layout) layer(in *LayerInfo) (LayerLayout, error) {
	y := LayerLayout{
		Layer: in.Layer, Heads: in.Heads, KVHeads: in.KVHeads, Group: -1, Share: in.Share,
		MLA: in.MLA, RopeBase: in.RopeBase, StateBytes: in.StateBytes,
	}
	if !in.Cached {
		return y, nil
	}
	if in.HeadDimK <= 0 || in.HeadDimV <= 0 || in.KVHeads <= 0 {
		return y, fmt.Errorf("kv: layer %d has head sizes %d and %d and %d KV heads", in.Layer, in.HeadDimK, in.HeadDimV, in.KVHeads)
	}
	y.K = l.side(l.Want.K, in.HeadDimK, in.KVHeads)
	y.V = l.side(l.Want.V, in.HeadDimV, in.KVHeads)
	return y, nil
}

func (l *Layout) side(t *Type, dim, heads int) SideLayout {
	s := SideLayout{Wanted: t, Active: t, HeadDim: dim}
	if dim%t.Elems != 0 {
		s.Active = named(t.Heads.Else)
		s.Reason = fmt.Sprintf("head %d is no multiple of %d", dim, t.Elems)
	}
	s.Padded = s.Active.Padded(dim)
	s.Segments = s.Active.Segments(dim)
	s.HeadBytes = s.Active.RowBytes(dim)
	s.RowBytes = s.HeadBytes * heads
	return s
}

// group collects layers with one window, in order of first appearance.
func (l *Layout) group(layers []LayerInfo) {
	byWindow := map[int]int{}
	for i := range layers {
		in, y := &layers[i], &l.Layers[i]
		if !in.Cached {
			continue
		}
		if y.Share >= 0 {
			y.Group = l.Layers[y.Share].Group
			continue
		}
		g, ok := byWindow[in.Window]
		if !ok {
			g = len(l.Groups)
			byWindow[in.Window] = g
			l.Groups = append(l.Groups, Group{Window: in.Window})
		}
		l.Groups[g].Layers = append(l.Groups[g].Layers, i)
		y.Group = g
	}
}
