package shaders

import (
	"slices"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
)

// cacheDims are the head sizes whose kernels are compiled in advance.
var cacheDims = []int{64, 80, 96, 112, 128, 192, 256, 512, 576}

// cacheWindows are the exact tiers of instances: either none, or exact pages
// and pinned rows.
var cacheWindows = []kv.Window{{}, {Pinned: 4, Newest: 64}}

// cacheInstances adds the kernels that write and read cache types.
func cacheInstances(add func(string, Constants)) {
	launch := func(l Launch) { add(l.Kernel.Name, l.Constants) }
	for _, t := range kv.Types() {
		for _, dim := range cacheDims {
			for _, side := range []kv.Side{kv.K, kv.V} {
				for _, window := range cacheWindows {
					c := resolved(t, dim, side, window)
					if c == nil {
						continue
					}
					for _, l := range slices.Concat(c.Encode(1, Target{}), c.Query(1)) {
						launch(l)
					}
					launch(c.Combine(1, 1, 0, false))
					if c.Exact == nil {
						continue
					}
					for _, l := range slices.Concat(c.Exact.Encode(1, Target{}), c.Pinned.Encode(1, Target{})) {
						launch(l)
					}
					for _, l := range c.Repack(1, Target{}) {
						launch(l.Launch)
					}
					if self := c.selfCalibrated(); self != nil && side == kv.K {
						for _, l := range self.Repack(1, Target{}) {
							launch(l.Launch)
						}
					}
				}
			}
		}
	}
	attendInstances(add)
}

// attendInstances adds the instances of attend for any pair and for the
// frequent pairs.
func attendInstances(add func(string, Constants)) {
	sizes := func(second bool, of func(queries, lanes int) Constants) {
		for _, lanes := range laneClasses {
			for _, n := range queries {
				if n <= mostQueries(lanes, second) {
					add("attend", of(n, lanes))
				}
			}
		}
	}
	pair := func(k, v *Cache) {
		sizes(k.second() > 0, func(queries, lanes int) Constants { return attendConstants(k, v, queries, lanes) })
	}
	shapes := func(k, v *Cache) {
		pair(k, v)
		if self := k.selfCalibrated(); self != nil {
			pair(self, v)
		}
	}
	for _, t := range kv.Types() {
		for _, dim := range cacheDims {
			for _, window := range cacheWindows {
				if c := resolved(t, dim, kv.K, window); c != nil {
					shapes(c, c)
				}
			}
		}
	}
	each(shapes)
	sizes(true, func(queries, lanes int) Constants { return anyPair(2, true, queries, lanes) })
}

// resolved returns the form of a type on one side at a head size, with a
// window. It returns nil if no kernel supports it.
func resolved(t *kv.Type, dim int, side kv.Side, window kv.Window) *Cache {
	l, err := layout.Resolve(layout.Want{K: t, V: t}, []layout.LayerInfo{{
		Cached: true, Heads: 1, KVHeads: 1, HeadDimK: dim, HeadDimV: dim, Share: -1,
	}}, layout.Settings{Cells: kv.PageCells, Seqs: 1, ExactWindow: &window.Newest, ExactSinks: &window.Pinned})
	if err != nil {
		return nil
	}
	s := l.Layers[0].Side(side)
	c, err := NewCache(s.Active, s.HeadDim, 0)
	if err != nil || c.Beside(s.Exact, s.Pinned) != nil {
		return nil
	}
	return c
}
