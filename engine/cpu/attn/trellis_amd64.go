package attn

func trellisTokens(dst, strings []byte, y *trellis, elems, ahead int) {
	if !avx512() {
		trellisTokensGeneric(dst, strings, y, elems)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes-1]
	if elems == 32 {
		trellisTokens32AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, y.bytes, 1, ahead)
		return
	}
	trellisTokens64AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, 8*y.bits, elems/64, ahead)
}

func trellisValues(dst, strings []byte, y *trellis, elems, chunk int, used uint64, ahead int) {
	if !avx512() {
		trellisValuesGeneric(dst, strings, y, elems, chunk, used)
		return
	}
	_, _ = dst[elems*Cells-1], strings[Cells*y.bytes-1]
	if elems == 32 {
		trellisValues32AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, y.bytes, 1, used, ahead)
		return
	}
	trellisValues64AVX512(&dst[0], &strings[0], &y.table[0], &y.order[0], &y.shift[0], y.bytes, 8*y.bits, elems/64, used, ahead)
}

// steps of the encoder, by bits from 2 up.
var viterbi512 = [3]func(cost *uint16, from *byte, z, table *int16, groups int){viterbi2AVX512, viterbi3AVX512, viterbi4AVX512}

// searchTrellis chooses the windows of z, as kv.Trellis does.
func searchTrellis(w []uint8, z []int16, y *trellis, s *paths) {
	if !avx512() {
		y.run.Encode(w, z)
		return
	}
	n, states := len(z), 256>>y.bits
	near := y.run.Near(n)
	for i, v := range z {
		s.back[n-1-i] = v
	}
	run := func(z []int16, step int) {
		_ = s.from[(step+len(z))*states-1]
		viterbi512[y.bits-2](&s.cost[0], &s.from[step*states], &z[0], &y.steps[0], len(z)/4)
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
