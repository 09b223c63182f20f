package attn

import (
	"slices"

	"godwit/engine/kv"
)

// abreast is the number of rows that are encoded together. A single path spends
// most of its time waiting for its own metrics.
const abreast = 4

// paths is the memory of a trellis encoder for rows that are encoded together.
// Vector code depends on its layout.
type paths struct {
	z    [abreast][maxElems]int16
	w    [abreast][maxElems]uint8
	cost [abreast][64]uint16
	most [abreast][32]uint16             // the largest metrics; some may be missing
	kept [abreast][64 * steps / 4]uint16 // the metrics after every four values
	from [abreast][64 * steps]uint8      // by value and state, the high bits of the window that led to the state, already shifted into place
	sum  [abreast]float64                // sums of squares
	at   [abreast]uint                   // states from which paths are traced back
}

// steps is the largest number of values on a path, including 24 before the
// seam.
const steps = 24 + maxElems

// encodeTrellis implements the rule Unbiased.
func (p *codes) encodeTrellis(page Page, cell, first int, x []float32, s *Scratch) int {
	forward(&p.Form.Rotation, x, p.Form.Rotation.Forward)
	return p.packTrellis(page.Read, cell, 1, first/p.elems, x, len(x), s.paths)
}

// packTrellis encodes block b of n rotated cells. The cells' values are ld
// apart in x. It returns the number of saturated scales.
func (p *codes) packTrellis(page []byte, cell, n, b int, x []float32, ld int, s *paths) (saturated int) {
	t, y := p.Form, p.cyclic
	row := func(i int) []float32 { return x[i*ld:][:p.elems] }
	for i := range n {
		s.sum[i] = trellisTargets(s.z[i][:p.elems], row(i), t.Scale.Unit)
	}
	y.search(s, p.elems, n)
	for i := range n {
		w := s.w[i][:p.elems]
		y.putWindows(p.strings(page, b)[y.at(cell+i):], w)
		scale := t.TrellisScaleOf(s.sum[i], y.dot(row(i), &s.w[i]))
		saturated += putScale(page[p.scale+2*(b*Cells+cell+i):], scale)
	}
	return saturated
}

// rotatedGeneric reads the values of four cells with byte codes, ld apart.
func (p *codes) rotatedGeneric(dst []float32, ld int, page []byte, cell int) {
	for i := range abreast {
		for b := range p.Blocks {
			x := dst[i*ld+b*p.elems:][:p.elems]
			scale := halfAt(page[p.scale+2*(b*Cells+cell+i):])
			for j := 0; j < len(x); j += 4 {
				step, at := p.step(cell+i, b*p.elems+j)
				code := page[p.low.at+64*step+at:]
				for k := range 4 {
					if p.side == kv.K {
						x[j+k] = float32(int8(code[k]^0x80)) * scale
					} else {
						x[j+k] = float32(int8(code[4*k])) * scale
					}
				}
			}
		}
	}
}

// dotGeneric adds in the order of kv.Type.TrellisScale.
func (y *trellis) dotGeneric(x []float32, w *[maxElems]uint8) float64 {
	var sum [16]float64
	for i := 0; i < len(x); i += 16 {
		for j, v := range x[i : i+16] {
			sum[j] += float64(v) * float64(y.level[w[i+j]])
		}
	}
	for half := 8; half > 0; half /= 2 {
		for i := range half {
			sum[i] += sum[half+i]
		}
	}
	return sum[0]
}

// putWindows writes the string from which windows are cut to dst.
func (y *trellis) putWindows(dst, w []uint8) {
	for unit := y.beside * y.bits; len(w) >= 8; dst, w = dst[unit:], w[8:] {
		switch y.bits {
		case 2:
			dst[0], dst[1] = w[0], w[4]
		case 3:
			dst[0], dst[1], dst[2] = w[0], w[2]>>2|w[4]>>2<<6, w[5]>>1|w[7]>>2<<7
		case 4:
			dst[0], dst[1], dst[2], dst[3] = w[0], w[2], w[4], w[6]
		}
	}
}

// search chooses the windows of n values of some rows, as kv.Trellis does. Its
// first run continues as a free run over all values. The second run of
// kv.Trellis begins and ends in the seam's state. If the path of the free run
// that ends in this state also began there, it is also the path of the second
// run. Compared with the free run, no metric on this path is larger in the second
// run, and no metric of another path is smaller. This holds only if no metric was
// clipped to 16 bits.
func (y *trellis) search(s *paths, n, rows int) {
	if !y.vector() {
		for i := range rows {
			y.run.Encode(s.w[i][:n], s.z[i][:n])
		}
		return
	}
	near := y.run.Near(n)
	for i := range rows {
		clear(s.cost[i][:])
		clear(s.most[i][:])
	}
	y.advance(s, 0, rows, 0, near-1, near)
	y.advance(s, 0, rows, near, n-1, near)
	for i := range rows {
		s.at[i] = 0
		for s.cost[i][s.at[i]] != 0 { // the smallest metric is 0, because it was subtracted after the last step, a multiple of four
			s.at[i]++
		}
	}
	y.back(s, rows, 2*near, near)
	y.advance(s, 0, rows, 2*near, n-1-near, n-near)
	seam := s.at
	y.back(s, rows, near+n, n)
	for i := range rows {
		if s.at[i] != seam[i] || slices.Contains(s.most[i][:], 1<<16-1) {
			y.close(s, i, seam[i], near, n)
		}
	}
}

// close does the second run of kv.Trellis for a row, up to the step at which
// its metrics equal those of the first run. From that step on both runs choose
// the same windows, so only the paths before it are traced again.
func (y *trellis) close(s *paths, row int, seam uint, near, n int) {
	states := 256 >> y.bits
	cost, kept := s.cost[row][:states], s.kept[row][:]
	for i := range cost {
		cost[i] = 1<<16 - 1
	}
	cost[seam] = 0
	var first [64]uint16
	state, w := seam, s.w[row][:n]
	for done := 0; done < n; {
		k := near + done
		copy(first[:], kept[(k/4+1)*states:][:states])
		y.advance(s, row, 1, k, n-1-done, 8)
		if done += 8; done < n && slices.Equal(cost, first[:states]) {
			w = w[n-done:]
			state = uint(w[0]) & uint(states-1)
			break
		}
	}
	y.backRow(w, s.from[row][:], state, near+len(w))
}

// backRow traces a path back over the values of w, starting from its state
// after step k. It writes their windows and returns the state before them.
func (y *trellis) backRow(w, from []uint8, state uint, k int) uint {
	states := 256 >> y.bits
	at := (k - 1) * states
	for i := range w {
		x := uint(from[at+int(state)]) | state
		w[i], state = uint8(x), x>>(y.bits&7)
		at -= states
	}
	return state
}

// back traces the paths of rows back over n values, starting from their states
// after step k. It does all rows together if there is vector code for that.
func (y *trellis) back(s *paths, rows, k, n int) {
	if rows == abreast {
		y.walkBack(s, k, n)
		return
	}
	for i := range rows {
		s.at[i] = y.backRow(s.w[i][:n], s.from[i][:], s.at[i], k)
	}
}
