package attn

import "godwit/engine/kv"

// paths is the memory of a trellis encoder.
type paths struct {
	z    [maxElems]int16
	w    [maxElems]uint8
	back [maxElems]int16 // the values, last first
	cost [64]uint16
	from [maxElems * 64]uint8 // high bits of the window that led to a state, by value
}

// encodeTrellis is the rule Unbiased.
func (p *codes) encodeTrellis(page []byte, cell, first int, x []float32, s *Scratch) int {
	forward(&p.Form.Rotation, x, p.Form.Rotation.Forward)
	return p.packTrellis(page, cell, first/p.elems, x, s)
}

// pack encodes values of the rotated domain into a cell.
func (p *codes) pack(page []byte, cell int, x []float32, s *Scratch) (saturated int) {
	for b := range p.Blocks {
		saturated += p.packTrellis(page, cell, b, x[b*p.elems:(b+1)*p.elems], s)
	}
	return saturated
}

// packTrellis encodes block b, already rotated; the result is 1 if its scale was
// saturated.
func (p *codes) packTrellis(page []byte, cell, b int, x []float32, s *Scratch) int {
	t, y := p.Form, p.cyclic
	z, w := s.paths.z[:len(x)], s.paths.w[:len(x)]
	energy := kv.TrellisTargets(z, x, t.Scale.Unit)
	searchTrellis(w, z, y, s.paths)
	scale := t.TrellisScale(x, w, energy)
	for i := range w {
		w[i] &= 1<<y.bits - 1
	}
	putStream(p.string(page, cell, b), w, y.bits)
	return putScale(page[p.scale+2*(b*Cells+cell):], scale)
}

// viterbiFunc adds groups of four values to the paths of the encoder, as
// kv.Trellis does.
type viterbiFunc = func(cost *uint16, from *byte, z, table *int16, groups int)

// searchTrellis chooses the windows of z, as kv.Trellis does.
func searchTrellis(w []uint8, z []int16, y *trellis, s *paths) {
	step, table := viterbi(y)
	if step == nil {
		y.run.Encode(w, z)
		return
	}
	n, states := len(z), 256>>y.bits
	near := y.run.Near(n)
	for i, v := range z {
		s.back[n-1-i] = v
	}
	run := func(z []int16, k int) {
		_ = s.from[(k+len(z))*states-1]
		step(&s.cost[0], &s.from[k*states], &z[0], &table[0], len(z)/4)
	}
	clear(s.cost[:])
	run(s.back[n-near:n], 0)
	run(s.back[:near], near)
	state := 0
	for i, v := range s.cost[:states] {
		if v < s.cost[state] {
			state = i
		}
	}
	for k := 2*near - 1; k >= near; k-- {
		state = y.run.Back(state, s.from[k*states+state])
	}
	for i := range s.cost {
		s.cost[i] = 1<<16 - 1
	}
	s.cost[state] = 0
	run(s.back[:n], 0)
	for i := range w {
		x := s.from[(n-1-i)*states+state]
		w[i] = x<<(8-y.bits) | uint8(state)
		state = y.run.Back(state, x)
	}
}
