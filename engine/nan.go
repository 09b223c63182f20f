package engine

import (
	"context"
	"math"

	"godwit/engine/kv"
	"godwit/engine/kv/layout"
	"godwit/engine/llm"
	"godwit/engine/sched"
)

// FirstNaN computes tokens again and returns the layer and the position of the
// first NaN or infinite value, or -1 and the number of tokens if there is no such
// value. It reads keys and values from the cache, so the cache must be f32 or f16,
// because packed types have no code for NaN. A NaN after the last cache counts as the
// last layer's.
func (e *Engine) FirstNaN(ctx context.Context, tokens []llm.Token) (layer, pos int, err error) {
	layer, pos = -1, len(tokens)
	if err := e.Config().CheckTokens(tokens); err != nil {
		return layer, pos, err
	}
	logits := len(tokens)
	j := sched.Job{Prompt: tokens, Fresh: true, Strays: true, Slot: 0, Want: func(int) bool { return true }}
	j.Row = func(p int, row []float32) error {
		if p < logits && hasNaN(row) {
			logits = p
		}
		return nil
	}
	if err := e.wait(ctx, j); err != nil {
		return layer, pos, err
	}
	doErr := e.sched.Do(ctx, func() { layer, pos, err = e.firstNaN(len(tokens)) })
	if doErr != nil {
		return -1, len(tokens), doErr
	}
	if err == nil && logits < pos {
		layer, pos = e.Config().Layers-1, logits
	}
	return layer, pos, err
}

// firstNaN scans the cache of slot 0; it runs on the device's goroutine.
func (e *Engine) firstNaN(n int) (layer, pos int, err error) {
	layer, pos = -1, n
	for i := range e.p.Layout.Layers {
		y := &e.p.Layout.Layers[i]
		if !y.Owns() {
			continue
		}
		for p := range pos {
			bad := [2]bool{}
			for _, s := range []kv.Side{kv.K, kv.V} {
				if bad[s], err = e.rowNaN(i, s, p); err != nil {
					return -1, n, err
				}
			}
			bad[kv.V] = bad[kv.V] || y.V.View && bad[kv.K]
			if !bad[kv.K] && !bad[kv.V] {
				continue
			}
			// if keys and values are both NaN, their common input, from the layer before, was already NaN
			layer, pos = y.Layer, p
			if bad[kv.K] && bad[kv.V] {
				layer = max(y.Layer-1, 0)
			}
			break
		}
	}
	return layer, pos, nil
}

// rowNaN reports whether the row of a position contains NaN or infinity.
func (e *Engine) rowNaN(layer int, s kv.Side, pos int) (bool, error) {
	y := &e.p.Layout.Layers[layer]
	side := y.Side(s)
	cell := e.cache.Cell(y.Group, 0, pos)
	if cell < 0 || side.RowBytes == 0 {
		return false, nil // outside the window, or a view
	}
	row := make([]byte, side.RowBytes)
	if err := e.prog.ReadRow(row, layer, s, layout.Packed, cell); err != nil {
		return false, err
	}
	x := make([]float32, side.HeadDim)
	for h := range y.KVHeads {
		side.Active.Decode(x, row[h*side.HeadBytes:(h+1)*side.HeadBytes], kv.At{Pos: pos, RopeBase: y.RopeBase})
		if hasNaN(x) {
			return true, nil
		}
	}
	return false, nil
}

// hasNaN reports whether values contain NaN or infinity. Infinity counts because it
// makes later sums NaN.
func hasNaN(x []float32) bool {
	for _, v := range x {
		if v != v || math.IsInf(float64(v), 0) {
			return true
		}
	}
	return false
}
