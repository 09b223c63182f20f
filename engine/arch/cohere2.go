package arch

import "godwit/engine/model"

func init() { model.Register("cohere2", model.Arch{Chat: "Command R", Open: openCohere2}) }

// openCohere2 opens Command R7B and A: each three windowed layers are followed by a
// global one without RoPE. Source: arXiv 2504.00698.
func openCohere2(f *model.File) (model.Model, error) {
	m := newDecoder(f)
	c := &m.cfg
	h := readHeads(f, c, nil)
	rope := bindRope(f, h[0].dimK, true)
	windowed, window := windowPattern(f, c, 4, 0)
	if window == 0 {
		f.Fail("attention.sliding_window", "missing")
	}
	m.bindCohere(f, h, func(i int) *attention {
		if !windowed[i] {
			return bindAttention(f, c, h[i], i, nil)
		}
		a := bindAttention(f, c, h[i], i, rope)
		a.Window = window
		return a
	})
	return m, nil
}
