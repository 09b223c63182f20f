package attn

// The readers of AVX2, by bits from 2 up; they read overrun bytes behind the
// strings.
var (
	trellisTokens2 = [3]func(dst, strings, table *byte, bytes, chunks int){trellisTokens2AVX2, trellisTokens3AVX2, trellisTokens4AVX2}
	trellisValues2 = [3]func(dst, strings, table *byte, bytes, chunks, group int, used uint64){trellisValues2AVX2, trellisValues3AVX2, trellisValues4AVX2}
)

const overrun = 16 // what follows a page of strings is longer

func trellisTokens(dst, strings []byte, y *trellis, elems, ahead int) {
	switch {
	case avx2() && len(strings) >= Cells*y.bytes+overrun:
		_ = dst[elems*Cells-1]
		trellisTokens2[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/32)
		return
	case !avx512():
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
	switch {
	case avx2() && len(strings) >= Cells*y.bytes+overrun:
		_ = dst[elems*Cells-1]
		trellisValues2[y.bits-2](&dst[0], &strings[0], &y.table[0], y.bytes, elems/32, 4*chunk, used)
		return
	case !avx512():
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

// viterbiFunc is a step of the encoder; there is one for 2, 3 and 4 bits.
type viterbiFunc = func(cost *uint16, from *byte, z, table *int16, groups int)

var (
	viterbi512 = [3]viterbiFunc{viterbi2AVX512, viterbi3AVX512, viterbi4AVX512}
	viterbi2   = [3]viterbiFunc{viterbi2AVX2, viterbi3AVX2, viterbi4AVX2}
)

// searchTrellis chooses the windows of z, as kv.Trellis does.
func searchTrellis(w []uint8, z []int16, y *trellis, s *paths) {
	step, table := &viterbi512, &y.steps
	switch {
	case avx2():
		step, table = &viterbi2, &y.run.Table
	case !avx512():
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
		step[y.bits-2](&s.cost[0], &s.from[k*states], &z[0], &table[0], len(z)/4)
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
